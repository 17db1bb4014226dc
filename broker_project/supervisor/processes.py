"""The process table: starts roles, reaps and restarts what dies, stops everything in order.

It has no thread of its own: whoever holds it calls `tick` a few times a second.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.conf import settings

from broker_project.supervisor import room
from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.role_log import RoleLog
from broker_project.supervisor.spawn import Role, spawn

FIRST_DELAY_SECONDS = 0.2
STEADY_SECONDS = 30.0
TICK_SECONDS = 0.05
LOGS_LOOK_SECONDS = 3.0
LAST_WORDS = 20  # lines of its log that may tell why a process ended


@dataclass
class Entry:
    """A role and its present process. `deaths` counts those without a steady life between."""

    role: Role
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    start_again_at: float = 0.0
    deaths: int = 0
    log: RoleLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = RoleLog(self.role.log)

    def start(self) -> int:
        self.log.begin()
        self.started = time.monotonic()
        self.process = spawn(self.role)
        return self.process.pid

    def note_death(self) -> float:
        """Returns the seconds until the next start: twice as many each time, until one process lives steadily."""
        now = time.monotonic()
        if now - self.started >= STEADY_SECONDS:
            self.deaths = 0
        delay: float = min(FIRST_DELAY_SECONDS * 2.0 ** min(self.deaths, 10), settings.LONGEST_RESTART_SECONDS)
        self.start_again_at = now + delay
        self.deaths += 1
        self.process = None
        return delay

    def log_text(self) -> str:
        """What the role wrote since its present process was started."""
        return self.log.text()

    def folders(self) -> list[Path]:
        """Where it writes."""
        return [folder for folder in (self.role.data, self.role.log and self.role.log.parent) if folder]


class ProcessTable:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._look_at_logs = 0.0

    def start(self, role: Role) -> Entry:
        entry = self.entries[role.name] = Entry(role)
        entry.start()
        return entry

    def tick(self) -> list[str]:
        """Reaps the dead, starts again what is due, keeps the logs short. Returns what happened, a line each."""
        happened = []
        for name, entry in self.entries.items():
            if entry.process is None:
                if time.monotonic() >= entry.start_again_at:
                    happened.append(_start_again(name, entry))
            elif (code := entry.process.poll()) is not None:
                why = _in_words(code) + _room_in_words(entry)
                happened.append(f"{name} ended ({why}); again in {entry.note_death():.1f} s")
        self._keep_logs_short()
        return happened

    def _keep_logs_short(self) -> None:
        if time.monotonic() < self._look_at_logs:
            return
        self._look_at_logs = time.monotonic() + LOGS_LOOK_SECONDS
        for entry in self.entries.values():
            with suppress(OSError):  # no room for the copy: then the log cannot grow much either
                entry.log.turn_over()

    def listing(self) -> list[dict[str, Any]]:
        """The running processes as `run.json` lists them."""
        return [
            {"role": name, "pid": entry.process.pid, "log": str(entry.role.log)}
            for name, entry in self.entries.items()
            if entry.process is not None
        ]

    def stop_all(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Ends all roles, rank by rank; those of one rank at once. `hurry` cuts the grace short when it turns true."""
        ranked = sorted((entry for entry in self.entries.values()), key=attrgetter("role.stop_rank"))
        for _, rank in groupby(ranked, key=attrgetter("role.stop_rank")):
            self._stop([entry for entry in rank if entry.process is not None], hurry)
        self.entries.clear()

    def _stop(self, entries: list[Entry], hurry: Callable[[], bool]) -> None:
        begun = time.monotonic()
        for entry in entries:
            _send(entry, entry.role.stop_signal)
        while left := _alive(entries):
            for entry in left:
                waited = time.monotonic() - begun
                if hurry() or waited > entry.role.grace_seconds:
                    # The second time round even a role with a gentler last word gets SIGKILL.
                    insist = waited > entry.role.grace_seconds + 5
                    _send_group(entry, signal.SIGKILL if insist else entry.role.last_signal)
            time.sleep(TICK_SECONDS)


def wait_for(process: "subprocess.Popen[bytes]", pause: Callable[[], object], grace_seconds: float = 5.0) -> int:
    """Waits for a child that ends by itself; returns its exit code. When `pause` raises, the child is ended first."""
    try:
        while process.poll() is None:
            pause()
    except BaseException:
        process.terminate()
        try:
            process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return process.returncode


def _start_again(name: str, entry: Entry) -> str:
    try:
        return f"{name} started again (pid {entry.start()})"
    except (OSError, subprocess.SubprocessError, StartFailed) as error:
        # No room for its log, no more processes, an orphan in its folder: such things pass, and the others run on.
        why = f"{error}{_room_in_words(entry)}"
        return f"{name} could not be started ({why}); again in {entry.note_death():.1f} s"


def _in_words(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _room_in_words(entry: Entry) -> str:
    folder = room.ran_out(entry.folders(), "\n".join(entry.log_text().splitlines()[-LAST_WORDS:]))
    return f"; disk full: no room left in {folder}" if folder else ""


def _alive(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.process is not None and entry.process.poll() is None]


def _send(entry: Entry, number: int) -> None:
    if entry.process is not None:
        entry.process.send_signal(number)


def _send_group(entry: Entry, number: int) -> None:
    """To the process and all it started: each role leads a group of its own."""
    if entry.process is not None and entry.process.poll() is None:
        os.killpg(entry.process.pid, number)
