"""Watches a world from outside: how much gets done, and sessions that are taken although nothing runs on them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import psycopg2

from tests.chaos.declared import POOR, UNASKABLE
from tests.chaos.world import LEASE_SECONDS, SWEEP_SECONDS, World

WINDOW_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
RECOVERY_SECONDS: Final = 30.0
BACK_SHARE: Final = 0.95
SUBMITTED_SHARE: Final = 0.9
LEAST_SUBMITTED_SHARE: Final = 0.75
# Beside the lease and one sweep: what the work itself takes (an answer, a poll's pause and another sweep under way), and
# how long this look takes on a busy machine.
GRACE_SECONDS: Final = 2.5
UNUSABLE_SECONDS: Final = LEASE_SECONDS + SWEEP_SECONDS + GRACE_SECONDS

_DONE = """
SELECT count(*) FILTER (WHERE j.state IN ('completed', 'cancelled') AND j.finished_at > since) AS done,
       count(*) FILTER (WHERE j.created_at > since) AS submitted
FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id,
     LATERAL (SELECT clock_timestamp() - make_interval(secs => %s) AS since) w
WHERE t.name <> %s AND (j.finished_at > since OR j.created_at > since)"""
_TAKEN = """
SELECT r.id AS resource, r.state, r.reason, a.id AS attempt, coalesce(a.dispatch_key, '') AS key, a.sendings, a.phase,
       a.verdict, a.sendings > j.max_attempts AS given_up, t.name AS type, t.max_runtime_ms / 1000.0 AS max_runtime,
       extract(epoch FROM clock_timestamp() - a.called_at)::float AS called
FROM pool_resource r LEFT JOIN jobs_attempt a ON a.resource_id = r.id AND a.ended_at IS NULL
LEFT JOIN jobs_job j ON j.id = a.job_id LEFT JOIN jobs_jobtype t ON t.id = j.type_id
WHERE r.state <> 'available'"""


@dataclass
class Spell:
    """A session that is taken by one attempt, or none, while nothing of it runs at its upstream."""

    began: float
    last: float
    row: dict[str, Any]


class Sessions(threading.Thread):
    """Looks twice a second, from `start` to `stop`."""

    def __init__(self, world: World) -> None:
        super().__init__(name="sessions", daemon=True)
        self.world = world
        self.unusable: list[Spell] = []
        self._spells: dict[tuple[Any, ...], Spell] = {}
        self._over = threading.Event()
        self._lock = threading.Lock()

    def begin_anew(self) -> None:
        """What is taken now counts from now on, and nothing was too long."""
        with self._lock:
            self._spells.clear()
            self.unusable = []

    def stop(self) -> None:
        self._over.set()
        self.join()

    def take_unusable(self) -> list[Spell]:
        """Those that were too long, since this was asked last."""
        with self._lock:
            found, self.unusable = self.unusable, []
        return found

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            try:
                running = self._running()
                rows = self.world.rows(_TAKEN)
                running |= self._running()  # what began or ended between the two looks
            except (psycopg2.Error, httpx.HTTPError):
                with self._lock:
                    self._spells.clear()  # nobody can say what was in between
                continue
            with self._lock:
                self._note(rows, running)

    def _running(self) -> set[str]:
        """Dispatch keys of what runs at the upstreams now."""
        books = [self.world.of_simulator(name, "/book?limit=300") for name in self.world.simulators]
        return {line["key"] for book in books for line in book if line["end"] is None}

    def _note(self, rows: list[dict[str, Any]], running: set[str]) -> None:
        now = time.monotonic()
        idle = {(row["resource"], row["attempt"]): row for row in rows if row["key"] not in running}
        for key in set(self._spells) - set(idle):
            del self._spells[key]
        for key, row in idle.items():
            spell = self._spells.setdefault(key, Spell(now, now, row))
            told = spell.last - spell.began > UNUSABLE_SECONDS
            spell.last, spell.row = now, row
            if spell.last - spell.began > UNUSABLE_SECONDS and not told and not _waits_out(row):
                self.unusable.append(spell)


def _waits_out(row: dict[str, Any]) -> bool:
    """Nobody can be asked whether it runs, or was asked in vain so often: then its session stays taken until it is certain."""
    askable = row["type"] not in UNASKABLE and not row["given_up"]
    return not askable and row["called"] is not None and row["called"] < float(row["max_runtime"]) + UNUSABLE_SECONDS


def done(world: World) -> tuple[int, int]:
    """Jobs of tenants that can pay: how many came to a good end in the last window, and how many were submitted in it."""
    try:
        row = world.rows(_DONE, WINDOW_SECONDS, POOR)[0]
    except psycopg2.Error:
        return 0, 0
    return int(row["done"]), int(row["submitted"])


def steady(world: World, seconds: float = RECOVERY_SECONDS) -> float:
    """Waits until as much is done as is submitted, or as this machine can; the least jobs a second of two windows."""
    end = time.monotonic() + seconds
    jobs = 0
    while time.monotonic() < end and jobs < SUBMITTED_SHARE * world.load.rate * WINDOW_SECONDS:
        time.sleep(LOOK_SECONDS)
        jobs, _ = done(world)
    time.sleep(WINDOW_SECONDS / 2)
    jobs = min(jobs, done(world)[0])
    assert jobs, "nothing is done at all"
    return min(jobs / WINDOW_SECONDS, world.load.rate)


def recovered_after(world: World, before: float, *, alone: bool = True) -> float | None:
    """Seconds from now to the first window in which as much is done as before; None when there is none in time.

    Where the processors are not ours alone, the programs may have fewer turns at them than before and submit less: then
    all that was submitted is as much. But far less than before is no recovery, since then it is web that holds them up.
    """
    began, wanted = time.monotonic(), before * WINDOW_SECONDS
    while (now := time.monotonic()) < began + RECOVERY_SECONDS + WINDOW_SECONDS:
        jobs, submitted = done(world)
        enough = wanted if alone else min(wanted, max(submitted, LEAST_SUBMITTED_SHARE * wanted))
        if now >= began + WINDOW_SECONDS and jobs >= BACK_SHARE * enough:
            return now - began - WINDOW_SECONDS
        time.sleep(LOOK_SECONDS / 2)
    return None


@contextmanager
def watched(world: World) -> Iterator[Sessions]:
    sessions = Sessions(world)
    sessions.start()
    try:
        yield sessions
    finally:
        sessions.stop()
