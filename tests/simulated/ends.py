"""How a job may have ended: its money, its history and its event, by what the provider's book has of it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.simulated import database
from tests.simulated.plan import MICRO
from tests.simulated.provider import Work

TERMINAL = ("completed", "failed", "cancelled")
NOBODY_KNEW = ("outcome_unknown", "crash_budget")

_JOBS = """
SELECT j.id, j.state, t.billing = 'credits', j.charged, j.error ->> 'code', jt.delivery, h.status, coalesce(h.captured, 0),
       (SELECT count(*) FROM jobs_jobmove m WHERE m.subject_id = j.id AND m.to_state = ANY(%s)),
       (SELECT count(*) FROM webhooks_event e WHERE e.job_id = j.id),
       EXISTS (SELECT FROM jobs_evidence v JOIN jobs_attempt a ON a.id = v.attempt_id
               WHERE a.job_id = j.id AND v.content ->> 'verdict' = 'succeeded'),
       EXISTS (SELECT FROM jobs_latecompletion l WHERE l.job_id = j.id),
       EXISTS (SELECT FROM jobs_jobmove m WHERE m.subject_id = j.id AND m.to_state = 'processing'),
       j.crashes
FROM jobs_job j JOIN jobs_jobtype jt ON jt.id = j.type_id JOIN tenants_tenant t ON t.id = j.tenant_id
LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
WHERE j.pool_id = %s ORDER BY j.id"""


class Ended(NamedTuple):
    """A job after the drain. `ends` and `events` are counts; amounts are micro-credits."""

    id: UUID
    state: str
    billed: bool
    charged: int
    code: str | None
    delivery: str
    hold: str | None
    captured: int
    ends: int
    events: int
    success_seen: bool
    success_late: bool
    was_sent: bool
    crashes: int


def of_pool(cursor: Any, pool_id: int) -> list[Ended]:
    return [Ended(*row) for row in database.ask(cursor, _JOBS, list(TERMINAL), pool_id)]


def breaches(job: Ended, works: Sequence[Work], lost: int) -> Iterator[str]:
    """What does not hold of this job; `works` is what the provider has of it, `lost` how many workers died under it."""
    done = [work.units * MICRO for work in works if work.state == "done"]
    if job.state not in TERMINAL:
        yield f"is {job.state} for ever"
        return
    if (job.ends, job.events) != (1, 1):
        yield f"ended {job.ends} times, with {job.events} events"
    if job.hold not in (("captured", "released") if job.billed else (None,)) or job.captured != job.charged:
        yield f"is {job.state}, charged {job.charged}; its hold is {job.hold}, captured {job.captured}"
    if job.state == "completed" and (job.charged not in done if job.billed else not done):
        yield f"was charged {job.charged}, and the provider did {done}"
    if job.state != "completed" and job.charged:
        yield f"is {job.state} and was charged {job.charged}"
    if job.success_seen and job.state != "completed" and not job.success_late:
        yield f"is {job.state}, and a success that was seen is forgotten"
    if job.crashes < lost:
        yield f"lost its worker {lost} times, and {job.crashes} were counted"
    if job.code == "expired" and job.was_sent:
        yield "expired after it had started"
    if works and not job.was_sent:
        yield f"is {job.state}, and was executed without being sent"
    if done and job.state == "failed" and job.delivery == "at_most_once" and job.code not in NOBODY_KNEW:
        yield f"failed with {job.code}, and the provider did it"
