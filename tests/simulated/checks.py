"""What must hold, at every moment and after the drain, judged by the provider's book and by what is committed."""

from collections.abc import Mapping
from typing import Any

from tests.simulated import database, ends
from tests.simulated.crew import Task
from tests.simulated.provider import Work
from upstream.calls import Outcome

HINTED = frozenset({"assign", "promote", "dispatch", "finish"})
DEADLOCK = "40P01"

_OF_KEY = """
SELECT a.phase, a.ended_at IS NOT NULL, a.verdict, a.error_code, j.state
FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id WHERE a.dispatch_key = %s"""
_REPEATABLE = """
SELECT verdict = 'failed' OR (verdict = 'unknown' AND (NOT %s OR asked_at IS NOT NULL OR sendings > 1))
FROM jobs_attempt WHERE dispatch_key = %s AND ended_at IS NOT NULL"""
_CALLING = "SELECT job_id FROM jobs_attempt WHERE id = %s AND fence = %s AND phase = 'calling' AND verdict = ''"
_CROWDED = """
SELECT t.name, count(*), t.max_running FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE j.pool_id = %s AND j.turn IS NOT NULL AND j.state IN ('pending', 'assigned', 'processing')
GROUP BY t.id HAVING count(*) > t.max_running"""
_SUCCESSES = """
SELECT a.id, v.fence FROM jobs_evidence v JOIN jobs_attempt a ON a.id = v.attempt_id JOIN jobs_job j ON j.id = a.job_id
WHERE j.pool_id = %s AND v.content ->> 'verdict' = 'succeeded'"""
_WAITING = "SELECT id, state FROM jobs_job WHERE pool_id = %s AND state NOT IN ('completed', 'failed', 'cancelled')"
_SESSIONS = "SELECT account_id, number, state FROM pool_resource WHERE pool_id = %s AND state <> 'available'"


class Breach(AssertionError):
    """What must hold does not."""


class Checks:
    """Finds breaches; `judge` raises the first."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.found: list[str] = []
        self._successes: set[tuple[int, int]] = set()  # attempt and fence of those that were recorded
        self._lost: dict[str, int] = {}  # workers, by job

    def judge(self) -> None:
        if self.found:
            raise Breach(self.found[0])

    def ended(self, task: Task) -> None:
        """No task of the product fails, whatever happens."""
        if task.dead:
            return
        cause = task.error.__cause__ if task.error is not None else None
        if getattr(cause, "pgcode", None) == DEADLOCK:
            self.found.append(f"{task} was in a deadlock")
        elif task.error is not None:
            self.found.append(f"{task} failed: {task.error!r}")

    def recorded(self, key: tuple[int, int, str], outcome: Outcome) -> None:
        """A writer believes that this outcome is kept."""
        if outcome.verdict == "succeeded":
            self._successes.add((key[0], key[1]))

    def crashed(self, flying: Mapping[tuple[int, int, str], Any]) -> None:
        """A process died with these calls in flight: each of which it had recorded nothing is a lost worker of its job.

        Where a kind of job can be cancelled this is not judged.
        """
        for attempt, fence, action in flying:
            rows = self._ask(_CALLING, attempt, fence) if action == "submit" else []
            if rows and not any(kind.cancels for kind in self._world.plan.kinds):
                self._lost[str(rows[0][0])] = self._lost.get(str(rows[0][0]), 0) + 1

    def calm(self, due: frozenset[str]) -> None:
        """Where nothing fails and nobody is at work, nothing waits that a hint should have brought."""
        for step in sorted(due & HINTED):
            self.found.append(f"there is something to {step}, and nobody was woken")

    def hinted(self) -> None:
        """Where nothing fails, hints alone bring every job to its end."""
        for job, state in self._ask(_WAITING, self._world.pool.pk):
            self.found.append(f"{self._world.names[str(job)]} is {state}: no wake-up came for it")

    def received(self, key: str) -> None:
        """A submit arrives only for an attempt whose intent is committed, and that nobody has given up."""
        name = self._world.short(key)
        rows = self._ask(_OF_KEY, key)
        if not rows:
            self.found.append(f"{name} was sent, and no such attempt is committed")
            return
        phase, over, verdict, code, state = rows[0]
        if phase == "intended" or state != "processing":
            self.found.append(f"{name} was sent while its attempt is {phase} and its job {state}")
        elif over:
            self.found.append(f"{name} was sent after its attempt had ended: {verdict} {code}")
        for tenant, count, cap in self._ask(_CROWDED, self._world.pool.pk):
            self.found.append(f"{tenant} has {count} jobs with a turn, and may have {cap}")

    def executes(self, work: Work) -> None:
        """An execution begins."""
        provider, plan = self._world.network.provider, self._world.plan
        running = len(provider.running(work.account))
        if running > plan.sessions:
            self.found.append(f"{work.account} executes {running} at once, and has {plan.sessions} sessions")
        if work.executions > 1:
            self.found.append(f"{self._world.short(work.key)} is executed {work.executions} times")
        executed = provider.executions(work.job)
        if executed > 1 and work.kind.delivery != "at_least_once":
            self.found.append(f"{self._world.short(work.key)}: its job is executed {executed} times")
        can_be_found = work.kind.finds or work.kind.deduplicates
        for earlier in provider.works.values():
            if earlier.job == work.job and earlier is not work:
                repeatable = self._ask(_REPEATABLE, can_be_found, earlier.key)
                if not repeatable or not repeatable[0][0]:
                    self.found.append(f"{self._world.short(work.key)} repeats {earlier.key} blindly")

    def drained(self) -> None:
        """After the drain everything has come to its end, and the money is what the book says. Raises Breach."""
        world = self._world
        if not world.draining or not world._rested:
            self.found.append("time is up, and not all has come to its end")
        jobs = ends.of_pool(world.cursor, world.pool.pk)
        works = world.network.provider.works.values()
        for job in jobs:
            own = [work for work in works if work.job == str(job.id)]
            found = ends.breaches(job, own, self._lost.get(str(job.id), 0))
            self.found += [f"{world.names[str(job.id)]} {what}" for what in found]
        for account, number, state in self._ask(_SESSIONS, world.pool.pk):
            self.found.append(f"session {number} of {account} is {state}")
        if forgotten := self._successes - {(row[0], row[1]) for row in self._ask(_SUCCESSES, world.pool.pk)}:
            self.found.append(f"{len(forgotten)} successes were recorded, and there is no evidence of them")
        there = {str(job.id) for job in jobs}
        for (tenant, key), made in world.made.items():
            if len(made) > 1:
                self.found.append(f"tenant {tenant}, {key}: {len(made)} jobs were made of one key")
            if lost := made - there:
                self.found.append(f"tenant {tenant}, {key}: accepted, and not there: {lost}")
        self.judge()

    def _ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return database.ask(self._world.cursor, sql, *parameters)
