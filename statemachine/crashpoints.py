"""Crash points: named gaps between two writes, where a test may end or stop this process as an operator's `kill` would.

They do nothing unless the environment names a folder, CRASHPOINTS. A test arms a point with files in it, one for each hit;
each hit takes one away, in whichever process comes by, and whoever takes the last gets its signal.
"""

import os
from pathlib import Path
from typing import Final

_FOLDER: Final = os.environ.get("CRASHPOINTS", "")


def crashpoint(name: str, written: object = True) -> None:
    """The process may end here, between what was `written` before and what comes after; where that is nothing, it goes on."""
    if _FOLDER and written:
        _hit(Path(_FOLDER), name)


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
