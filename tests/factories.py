"""A world to test in: tenants, pools, job types, and jobs that walk to a state by their own verbs.

No test starts from a state that the verbs could not have made. What the upstream answers is made by hand: no HTTP.
"""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import uuid_utils.compat
from django.utils import timezone

from credits import ledger, upstream_accounts
from jobs import admission, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.models import Attempt, Job, JobType
from pool.models import Pool, Resource, UpstreamAccount
from tenants.models import Tenant
from upstream.calls import Outcome

MICRO = 1_000_000
HOLDER = "worker:test"
_numbers = itertools.count(1)

# Answers by what they mean.
SUCCESS = Outcome(over=True, verdict="succeeded", status=200, units=3.0, result={"url": "made"})
REJECTED = Outcome(over=True, verdict="not_executed", error_class="rejected", status=422, error_code="bad_prompt")
BUSY = Outcome(over=True, verdict="not_executed", error_class="busy", status=429, retry_after_ms=5_000)
NO_KEY = Outcome(over=True, verdict="not_executed", error_class="auth", status=401)
AWAY = Outcome(over=True, verdict="not_executed", error_class="transient", error_code="connect")
FAILURE = Outcome(over=True, verdict="failed", status=200, error_code="nsfw", error_message="refused by its filter")
CUT = Outcome(over=False, verdict="unknown", error_class="transient", error_code="connection_lost")
ERROR_500 = Outcome(over=True, verdict="unknown", error_class="transient", status=500, error_code="http_500")


def make_tenant(credits: float = 1_000, **fields: Any) -> Tenant:  # noqa: A002  the word of the domain
    """A tenant with a wallet of so many credits."""
    tenant = Tenant.objects.create(**{"name": f"tenant-{next(_numbers)}", **fields})
    ledger.open_wallet(tenant.pk)
    if credits:
        ledger.grant(tenant.pk, round(credits * MICRO), f"opening:{tenant.name}")
    return tenant


def make_pool(sessions: int = 1, accounts: int = 1, **fields: Any) -> Pool:
    """A pool with `accounts` of `sessions` each."""
    pool = Pool.objects.create(**{"name": f"pool-{next(_numbers)}", "upstream": {"adapter": "http"}, **fields})
    for number in range(1, accounts + 1):
        account = UpstreamAccount(pool=pool, name=f"acct-{number:03}", sessions=sessions)
        account.credential = f"sim-acct-{number:03}"
        account.save()
        Resource.objects.bulk_create(
            Resource(pool=pool, account=account, number=session) for session in range(1, sessions + 1)
        )
    return pool


def make_tracked_pool(*credits_of_accounts: float | None, sessions_each: int = 1, **fields: Any) -> Pool:
    """A pool with an account for each number of credits; None: not tracked."""
    pool = make_pool(sessions=sessions_each, accounts=len(credits_of_accounts), tracks_credits=True, **fields)
    for account, amount in zip(pool.accounts.order_by("id"), credits_of_accounts, strict=True):
        if amount is not None:
            UpstreamAccount.objects.filter(pk=account.pk).update(tracked_since=timezone.now() - timedelta(hours=1))
            upstream_accounts.track(pool.pk, account.pk)
            if amount:
                upstream_accounts.top_up(pool.pk, account.pk, round(amount * MICRO), f"opening:{account.pk}")
    return pool


def make_job_type(pool: Pool | None = None, *, idempotent: bool = False, **fields: Any) -> JobType:
    """A type of 10 credits, charged by units."""
    submit = {"path": "'/run'", "idempotent": idempotent}
    usual = {
        "name": f"type-{next(_numbers)}",
        "price": "10",
        "settle": "outcome.units",
        "max_runtime_ms": 60_000,
        "upstream": {"mode": "sync", "submit": submit},
    }
    return JobType.objects.create(**{**usual, "pool": pool or make_pool(), **fields})


def submit(tenant: Tenant, job_type: JobType, **request: Any) -> Job:
    """A job as a tenant submits it; `request` are fields of `admission.Request`."""
    asked = admission.Request(**{"type": job_type.name, "payload": {}, **request})
    job, _ = admission.submit(tenant, asked, f"key-{next(_numbers):012}", b"f" * 32)
    return job


def submit_many(tenant: Tenant, job_type: JobType, count: int) -> list[Job]:
    """As many jobs of a tenant as asked for, stored, held and promoted in a few statements."""
    jobs = Job.objects.bulk_create(
        Job(
            id=UUID(str(uuid_utils.compat.uuid7())),
            tenant=tenant,
            type=job_type,
            pool_id=job_type.pool_id,
            payload={},
            price=MICRO,
            settle=job_type.settle,
            idempotency_key=f"key-{next(_numbers):012}",
            fingerprint=b"f" * 32,
        )
        for _ in range(count)
    )
    ledger.hold(tenant.pk, [ledger.HoldRequest(job.pk, job.run, job.price) for job in jobs], 3_600)
    transitions.promote(job_type.pool_id, [tenant.pk])
    return jobs


def at(state: str, job_type: JobType | None = None, tenant: Tenant | None = None, **request: Any) -> Job:
    """A job that walked to `state` (or to `backing_off`, `cancelling`). Its pool must have nothing else to assign."""
    job_type = job_type or make_job_type()
    job = submit(tenant or make_tenant(), job_type, **request)
    if state == "cancelled":
        transitions.cancel(job.id)
    elif state != "pending":
        assert transitions.assign(job.pool_id) == 1
        if state != "assigned":
            _walk_on(state, dispatch(job))
    job.refresh_from_db()
    assert job.state == {"backing_off": "pending", "cancelling": "processing"}.get(state, state)
    return job


def _walk_on(state: str, flight: Flight) -> None:
    if state == "cancelling":
        transitions.cancel(flight.job_id)
    answer = {"completed": SUCCESS, "failed": REJECTED, "backing_off": AWAY}.get(state)
    if answer:
        learn(flight, answer)
        transitions.finish([flight.job_id])


def dispatch(job: Job) -> Flight:
    """Commits the intent of an assigned job; the flight is what its worker would send."""
    (flight,) = transitions.dispatch([job.id], HOLDER)
    return flight


def learn(flight: Flight, outcome: Outcome) -> None:
    """What a worker does when the upstream has answered."""
    transitions.learn([Finding.of_answer(flight, outcome)])


def end(job: Job, outcome: Outcome) -> Job:
    """An assigned job is sent, answered and finished."""
    learn(dispatch(job), outcome)
    transitions.finish([job.id])
    job.refresh_from_db()
    return job


def end_all(job_ids: Sequence[UUID], outcome: Outcome = SUCCESS) -> None:
    """The same for a set."""
    transitions.learn([Finding(flight, outcome) for flight in transitions.dispatch(job_ids, HOLDER)])
    transitions.finish(job_ids)


def attempt_of(job: Job) -> Attempt:
    """The newest attempt of a job."""
    return Attempt.objects.select_related("resource").filter(job=job).latest("number")


def session_of(job: Job) -> Resource:
    """The session of its newest attempt."""
    return attempt_of(job).resource


def money(tenant: Tenant) -> tuple[int, int]:
    """(posted, held), in micro-credits."""
    balance = ledger.balances(tenant.pk)
    return balance.posted, balance.held
