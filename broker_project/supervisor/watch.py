"""The one loop of the supervisor: while it waits for anything, it reaps, restarts, keeps an eye on the disk and listens."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.processes import TICK_SECONDS, Entry, ProcessTable
from broker_project.supervisor.room import Room
from broker_project.supervisor.signals import StopSignals

START_SECONDS = 120.0
DEATHS_UNTIL_GIVEN_UP = 4


class Watch:
    """Everything in one thread: there is no other that could miss a signal or hold a lock across a fork."""

    def __init__(self, home: Path, console: Console) -> None:
        self.home = home
        self.console = console
        self.table = ProcessTable()
        self.signals = StopSignals()
        self.begun = time.monotonic()
        self._room = Room()

    def pause(self) -> bool:
        """One short rest; says whether a process died or came back. Raises StopRequested."""
        self.signals.check()
        time.sleep(TICK_SECONDS)
        happened = self.table.tick()
        for line in (*happened, *self._room.look(self.folders())):
            self.say(line)
        return bool(happened)

    def until_ready(self, name: str, is_ready: Callable[[Entry], bool]) -> None:
        """Waits for a role, if it was started. Raises StartFailed when it takes too long, or any role keeps dying."""
        if name not in self.table.entries:
            return
        entry, end = self.table.entries[name], time.monotonic() + START_SECONDS
        while entry.process is None or not is_ready(entry):
            self.pause()
            dying = [each for each in self.table.entries.values() if each.deaths >= DEATHS_UNTIL_GIVEN_UP]
            if dying or time.monotonic() > end:
                raise StartFailed(_last_words(dying[0] if dying else entry))

    def folders(self) -> list[Path]:
        """Where we and the servers write: on one disk, or on two."""
        return [self.home, *(entry.role.data for entry in self.table.entries.values() if entry.role.data)]

    def log(self, name: str) -> Path:
        """The log of a role."""
        return self.home / "logs" / f"{name}.log"

    def say(self, line: str) -> None:
        """To whoever looks; a closed or full place to write to is no reason to end."""
        seconds = time.monotonic() - self.begun
        with suppress(OSError):
            self.console.print(f"[dim]{seconds:5.1f} s[/dim]  {escape(line)}", highlight=False, soft_wrap=True)


def _last_words(entry: Entry) -> str:
    tail = "\n".join(entry.log_text().splitlines()[-15:])
    return f"{entry.role.name} does not come up. The end of {entry.role.log}:\n{tail}"
