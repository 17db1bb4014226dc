"""Watches a world from outside: how much gets done, sessions that are taken although nothing runs on them, and those that
are free although something does.
"""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import psycopg2

from tests.chaos.declared import POOR, UNASKABLE
from tests.chaos.world import LEASE_SECONDS, SWEEP_SECONDS, World
from tests.whole.running import wait_for

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
# So long after a fault all is told that it left taken: what still ran ends within a look, and one more finds it too long. Not
# what nobody can be asked for: that is told with the next.
TOLD_SECONDS: Final = UNUSABLE_SECONDS + 3 * LOOK_SECONDS
LOOKS_SECONDS: Final = 60.0  # in which it must be possible to look for so long without a break

_DONE = """
SELECT count(*) FILTER (WHERE j.state IN ('completed', 'cancelled') AND j.finished_at > since) AS done,
       count(*) FILTER (WHERE j.created_at > since) AS submitted
FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id,
     LATERAL (SELECT clock_timestamp() - make_interval(secs => %s) AS since) w
WHERE t.name <> %s AND (j.finished_at > since OR j.created_at > since)"""
# Where sending the same key again is the only way to learn what came of it, that is given up after some times, after three
# lost workers, and when nobody wants the job any more: it might only begin the work.
_TAKEN = """
SELECT r.id AS resource, r.state, r.reason, a.id AS attempt, coalesce(a.dispatch_key, '') AS key, a.sendings, a.phase,
       a.verdict, t.name AS type, t.max_runtime_ms / 1000.0 AS max_runtime,
       extract(epoch FROM clock_timestamp() - a.called_at)::float AS called,
       t.upstream -> 'find' IS NULL AND t.upstream -> 'poll' IS NULL
       AND (a.sendings > j.max_attempts OR j.crashes >= 3 OR j.cancel_requested_at IS NOT NULL) AS given_up
FROM pool_resource r LEFT JOIN jobs_attempt a ON a.resource_id = r.id AND a.ended_at IS NULL
LEFT JOIN jobs_job j ON j.id = a.job_id LEFT JOIN jobs_jobtype t ON t.id = j.type_id
WHERE r.state <> 'available'"""


# Of what runs: whether its attempt was ended where nobody could know better.
_EXCUSED = """
SELECT a.dispatch_key AS key, a.phase, a.verdict, a.ended_at, t.name AS type,
       coalesce(a.verdict = 'unknown' AND a.ended_at >= a.called_at + make_interval(secs => t.max_runtime_ms / 1000.0), false)
       OR EXISTS (SELECT FROM jobs_evidence e WHERE e.attempt_id = a.id AND e.kind = 'operator') AS excused
FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN jobs_jobtype t ON t.id = j.type_id
WHERE a.dispatch_key = ANY(%s)"""


@dataclass
class Spell:
    """A session that is taken by one attempt, or none, while nothing of it runs at its upstream. `told`: as too long."""

    began: float
    last: float
    row: dict[str, Any]
    told: bool = False


class Sessions(threading.Thread):
    """Looks twice a second, from `start` to `stop`. What it finds is kept until it is taken."""

    def __init__(self, world: World) -> None:
        super().__init__(name="sessions", daemon=True)
        self.world = world
        self._found: list[str] = []
        self._spells: dict[tuple[Any, ...], Spell] = {}
        self._free_and_running: set[str] = set()  # dispatch keys that were told
        self._excused = False
        self._since = self._looked = time.monotonic()  # looked without a break since then, last at
        self._over = threading.Event()
        self._lock = threading.Lock()

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Meanwhile no session is kept for too long: a fault keeps it; what is taken in the end counts from then on.

        No fault excuses that a session is free while something runs on it.
        """
        with self._lock:
            self._excused = True
        try:
            yield
        finally:
            with self._lock:
                self._excused = False
                self._begin_anew()

    def await_told(self, since: float) -> None:
        """Returns when all is told that was taken at that monotonic time. Fails when nobody can look for so long."""
        wait_for(lambda: self._looked >= max(self._since, since) + TOLD_SECONDS, LOOKS_SECONDS)

    def stop(self) -> None:
        self._over.set()
        self.join()

    def take_found(self) -> list[str]:
        """What was wrong, since this was asked last."""
        with self._lock:
            found, self._found = self._found, []
        return found

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """At sessions and upstreams as they are now."""
        try:
            before = self._running()
            rows = self.world.rows(_TAKEN)
            after = self._running()
            free = self._free(before & after, rows)
        except (psycopg2.Error, httpx.HTTPError):
            with self._lock:
                self._begin_anew()  # nobody can say what was in between
            return
        with self._lock:
            self._note(rows, before | after)  # what began or ended between the two looks is not idle
            self._found += free
            self._looked = time.monotonic()

    def _begin_anew(self) -> None:
        self._spells.clear()
        self._since = time.monotonic()

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
            spell.last, spell.row = now, row
            too_long = spell.last - spell.began > UNUSABLE_SECONDS and not _waits_out(row)
            if too_long and not spell.told and not self._excused:
                spell.told = True
                self._found.append(f"unusable for {spell.last - spell.began:.1f} s: {row}")

    def _free(self, running: Collection[str], rows: list[dict[str, Any]]) -> list[str]:
        """What ran before and after these rows were read, and on a session that none of them says is taken by it."""
        loose = set(running) - {row["key"] for row in rows} - self._free_and_running
        known = {row["key"]: row for row in self.world.rows(_EXCUSED, list(loose))} if loose else {}
        wrong = {key for key in loose if key not in known or not known[key]["excused"]}
        self._free_and_running |= wrong
        return [f"runs, and its session is free: {key}: {known.get(key, 'no attempt')}" for key in sorted(wrong)]


def _waits_out(row: dict[str, Any]) -> bool:
    """Nobody can be asked whether it runs, or is asked any more: then its session stays taken until it is certain."""
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
