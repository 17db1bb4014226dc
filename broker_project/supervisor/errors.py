"""What may keep a start from succeeding; `up` prints the message and ends with exit code 1."""

from pathlib import Path


class StartFailed(Exception):
    """The start cannot go on. The message says what happened and where to look."""


class HomeInUse(StartFailed):
    def __init__(self, home: Path, pid: str) -> None:
        super().__init__(
            f"{home} is in use: another `manage.py up` runs there (pid {pid}). Stop it, or name another --home."
        )


class StopRequested(Exception):
    """Ctrl-C or SIGTERM arrived; not an error."""
