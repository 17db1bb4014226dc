"""The log file of one role: its process appends to it, and we keep it short while that goes on."""

import shutil
from contextlib import suppress
from pathlib import Path

LOG_BYTES = 10_000_000  # then it is set aside
OLD_LOGS = 3  # NAME.log.1 is the newest of them
TEXT_BYTES = 1_000_000  # of what is read back


class RoleLog:
    """What the present process wrote is found again after the file was set aside. Without a path there is no log."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._begun = 0  # where the present process began: in the file, or after one turn in the newest old one
        self._turns = 0

    def begin(self) -> None:
        """A process is about to write."""
        self._begun, self._turns = _size(self.path), 0

    def text(self) -> str:
        """What was written since `begin`; of much, the end."""
        if self.path is None:
            return ""
        if not self._turns:
            return _tail(self.path, self._begun)
        earlier = _tail(_old(self.path, 1), self._begun if self._turns == 1 else 0)
        return (earlier + _tail(self.path, 0))[-TEXT_BYTES:]

    def turn_over(self) -> None:
        """Sets a long log aside and begins it anew. Raises OSError, and then the log stays and older ones make room.

        Its process goes on writing into the same file, so the content is copied and the file cut to nothing; what it
        writes between the two is lost.
        """
        if self.path is None or _size(self.path) <= LOG_BYTES:
            return
        copy = self.path.with_name(f".{self.path.name}.copy")
        try:
            shutil.copyfile(self.path, copy)
            copy.chmod(0o600)
        except OSError:
            for old in (copy, *(_old(self.path, number) for number in range(1, OLD_LOGS + 1))):
                with suppress(OSError):
                    old.unlink(missing_ok=True)
            raise
        with self.path.open("r+b") as log:
            log.truncate(0)
        for number in range(OLD_LOGS, 1, -1):
            with suppress(FileNotFoundError):
                _old(self.path, number - 1).rename(_old(self.path, number))
        copy.rename(_old(self.path, 1))
        self._turns += 1


def _old(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path else 0
    except FileNotFoundError:
        return 0


def _tail(path: Path, begin: int) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(begin, _size(path) - TEXT_BYTES))
            return log.read(TEXT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
