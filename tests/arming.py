"""Arming crash points (statemachine/crashpoints.py): from now on a process that comes by gets a signal."""

import signal
from pathlib import Path


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
