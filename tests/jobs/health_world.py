"""A pool whose calls fail as a test wants, and how its sessions and its health stand then."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobs import transitions
from jobs.findings import Finding, Flight
from jobs.models import Job, JobType
from jobs.queries import flights
from pool import transitions as sessions
from pool.models import AccountHealth, PoolHealth, Resource
from tests import db, factories
from tests.factories import AWAY, BUSY, NO_KEY, attempt_of
from upstream.calls import Outcome

HTTP_503 = replace(AWAY, status=503, error_code="http_503")
BARE_429 = replace(BUSY, retry_after_ms=None)
REFUSED = replace(NO_KEY, error_code="http_401", error_message="unknown key")
OFTEN = {"attempts": 100}


class World:
    """A pool and a tenant with jobs; `run` gives one to a session of the account and ends it."""

    def __init__(self, accounts: int = 1, sessions_each: int = 1, **fields: Any) -> None:
        self.pool = factories.make_pool(sessions=sessions_each, accounts=accounts, **fields)
        self.type = factories.make_job_type(self.pool, retry=OFTEN, delivery="at_least_once")
        self.tenant = factories.make_tenant(10_000)
        self.accounts = list(self.pool.accounts.order_by("id"))

    def started(self, count: int = 1, job_type: JobType | None = None, tenant: Any = None) -> list[Job]:
        """New jobs whose calls are on their way; the pool has as many free sessions."""
        jobs = [factories.submit(tenant or self.tenant, job_type or self.type) for _ in range(count)]
        assert transitions.assign(self.pool.pk) == count
        transitions.dispatch([job.pk for job in jobs], factories.HOLDER)
        return jobs

    def on(self, account: int, count: int = 1, **of: Any) -> list[Job]:
        """The same, on the sessions of one account: those of the others are held back."""
        others = Resource.objects.exclude(account=self.accounts[account])
        others.update(accepting=False)
        try:
            return self.started(count, **of)
        finally:
            others.update(accepting=True)

    def answer(self, jobs: Sequence[Job], outcome: Outcome) -> None:
        """They are answered, and finished."""
        answer(jobs, outcome)

    def run(self, account: int, outcome: Outcome, times: int = 1, **of: Any) -> Job:
        """One job after the other; the last of them."""
        for _ in range(times):
            (job,) = self.on(account, **of)
            self.answer([job], outcome)
            self.put_aside(job)
        job.refresh_from_db()
        return job

    def take_offline(self, account: int) -> None:
        """The account refuses two tenants, which another account could serve."""
        for tenant in (self.tenant, factories.make_tenant()):
            self.run(account, REFUSED, tenant=tenant)
            self.after(31)

    def put_aside(self, *jobs: Job) -> None:
        """What goes back to its line would be the next to run."""
        for job in jobs:
            transitions.cancel(job.pk)

    def states(self, account: int | None = None) -> list[str]:
        found = self.pool.resources if account is None else self.accounts[account].resources
        return list(found.order_by("id").values_list("state", flat=True))

    def health(self, account: int = 0) -> AccountHealth:
        return AccountHealth.objects.get(account=self.accounts[account])

    def of_pool(self) -> PoolHealth:
        return PoolHealth.objects.get(pool=self.pool)

    def rest_seconds(self, account: int = 0) -> list[float]:
        """How long each session of the account rests from now; 0 for one that does not."""
        now = db.value("SELECT clock_timestamp()")
        found = self.accounts[account].resources.order_by("number")
        return [(each.available_at - now).total_seconds() if each.available_at else 0 for each in found]

    def after(self, seconds: float) -> None:
        """Time passes, and what is due is released."""
        db.let_time_pass(seconds)
        sessions.release(list(self.pool.resources.values_list("pk", flat=True)))


def answer(jobs: Sequence[Job], outcome: Outcome) -> None:
    """These jobs, whose calls are on their way, are answered and finished."""
    ids = [attempt_of(job).pk for job in jobs]
    transitions.learn([Finding(flight, outcome) for flight in flights.opened(ids)])
    transitions.finish([job.pk for job in jobs])


def flight_of(job: Job) -> Flight:
    """The open attempt of a job, as its worker has it."""
    return flights.opened([attempt_of(job).pk])[0]
