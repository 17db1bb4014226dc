"""Room on the file systems we write to: enough to start, a word while it gets scarce, and a word when it has run out."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from broker_project.supervisor.errors import StartFailed

START_BYTES = 200_000_000  # a new database with its first write-ahead files, and the start of some logs
LOW_BYTES = 500_000_000
FULL_BYTES = 20_000_000  # one write-ahead file of Postgres does not fit any more
LOOK_SECONDS = 5.0
REPEAT_SECONDS = 300.0
SAID = ("No space left on device", "Disk quota exceeded")


def check(folders: Iterable[Path]) -> None:
    """Raises StartFailed when one of the folders has too little room for a start."""
    for folder in folders:
        if (free := _free(folder)) < START_BYTES:
            raise StartFailed(
                f"disk full: {folder} has {_megabytes(free)} left, and a start needs {_megabytes(START_BYTES)}."
                " Free some, or name another --home."
            )


def ran_out(folders: Iterable[Path], last_words: str) -> Path | None:
    """The folder whose disk is full, if one is: by its free room, or by what a process said before it ended."""
    known = list(folders)
    full = next((folder for folder in known if _free(folder) < FULL_BYTES), None)
    if full is None and known and any(words in last_words for words in SAID):
        return known[0]
    return full


class Room:
    """Looks at the folders now and then while everything runs."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._told: dict[int, tuple[str, float]] = {}  # by device: what was said last, and when

    def look(self, folders: Iterable[Path]) -> list[str]:
        """What there is to say: as a disk gets nearly full or full, each five minutes after, and when it has room again."""
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        said = []
        for device, folder in {folder.stat().st_dev: folder for folder in reversed(list(folders))}.items():
            free = _free(folder)
            state = "disk full" if free < FULL_BYTES else "disk nearly full" if free < LOW_BYTES else ""
            before, told = self._told.get(device, ("", 0.0))
            if state and (state != before or now - told > REPEAT_SECONDS):
                said.append(f"{state}: {folder} has {_megabytes(free)} left; without any, submits are refused")
                self._told[device] = state, now
            elif before and not state:
                said.append(f"{folder} has room again: {_megabytes(free)}")
                del self._told[device]
        return said


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except FileNotFoundError:  # not made yet: it will stand in the next one up
        return _free(folder.parent)


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.0f} MB"
