"""Crash points: named gaps between two writes, where a test may end or stop this process as an operator's `kill` would.

They do nothing unless the environment names a folder, CRASHPOINTS. A test arms a point with files in it, one for each hit;
each hit takes one away, in whichever process comes by, and whoever takes the last gets its signal.
"""

import os
import signal
from pathlib import Path
from typing import Final

_FOLDER: Final = os.environ.get("CRASHPOINTS", "")


def crashpoint(name: str, written: object = True) -> None:
    """The process may end here, between what was `written` before and what comes after; where that is nothing, it goes on."""
    if _FOLDER and written:
        _hit(Path(_FOLDER), name)


def arm(folder: Path, name: str, hit: int = 1, kind: signal.Signals = signal.SIGKILL) -> None:
    """From now on the `hit`th passing of this point, counted over all processes, gets this signal."""
    for number in range(1, hit + 1):
        path = folder / f"{name}.{number}"
        path.with_suffix(".new").write_text(str(int(kind)))
        path.with_suffix(".new").rename(path)


def disarm(folder: Path, name: str) -> bool:
    """Nobody is hit any more; False when somebody was."""
    left = list(folder.glob(f"{name}.[0-9]*"))
    for path in left:
        path.unlink(missing_ok=True)
    return bool(left)


def victims(folder: Path, name: str) -> list[int]:
    """The processes that were hit at this point, in their order."""
    path = folder / f"{name}.hit"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _hit(folder: Path, name: str) -> None:
    # An editor's copy of such a file arms nothing.
    numbered = [path for path in folder.glob(f"{name}.[0-9]*") if path.suffix[1:].isdecimal() and path.stem == name]
    armed = sorted(numbered, key=lambda path: int(path.suffix[1:]), reverse=True)
    for path in armed:
        try:
            kind = int(path.read_text())
            path.unlink()
        except FileNotFoundError:
            continue  # another process was faster, and this passing counts for the next
        if path.suffix == ".1":
            with (folder / f"{name}.hit").open("a") as hit:
                hit.write(f"{os.getpid()}\n")
            os.kill(os.getpid(), kind)
        return
