"""A new run of a job that failed or was cancelled: what it begins with, and why it may not begin."""

from uuid import UUID

from jobs import inputs
from jobs.models import Job, NextArrival
from jobs.queries import endings
from jobs.states import JOB
from statemachine.crashpoints import crashpoint
from tenants.models import Tenant

# What the last run left is taken back; attempt numbers, history and evidence stay. As much time for its first start as
# the first run had. A tenant that is not billed any more has nothing held.
NEW_RUN = {
    "run": "t.run + 1",
    "arrival": NextArrival.template,
    "queued_at": "clock_timestamp()",
    "start_deadline": "clock_timestamp() + (t.start_deadline - t.queued_at)",
    "price": f"CASE (SELECT billing FROM tenants_tenant c WHERE c.id = t.tenant_id) "
    f"WHEN '{Tenant.Billing.NONE}' THEN 0 ELSE t.price END",
    **dict.fromkeys(("tries", "crashes", "charged"), "0"),
    "flagged": "''",
    "unaffordable": "false",
    **dict.fromkeys(
        (
            "turn",
            "due_at",
            "result",
            "error",
            "assigned_at",
            "started_at",
            "finished_at",
            "cancel_requested_at",
            "dismissed_at",
        ),
        "NULL",
    ),
}
_UNRESOLVED = "EXISTS (SELECT 1 FROM jobs_attempt a WHERE a.job_id = t.id AND a.finished_at IS NULL)"
MAY_BEGIN = f"""NOT {_UNRESOLVED}
    AND (SELECT accepting FROM jobs_jobtype k WHERE k.id = t.type_id)
    AND (SELECT accepting FROM tenants_tenant c WHERE c.id = t.tenant_id)"""


class NotReplayable(Exception):
    """A job was asked to run again, and may not."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


class VersionChanged(Exception):
    """The job has moved on from the version that the request was made for."""

    def __init__(self, seen: int, now: int) -> None:
        super().__init__(f"the job is at version {now}, not {seen} any more")
        self.version = now


def begun(job_id: UUID, moved: bool, seen: int | None) -> Job:
    """The job as it stands after its `replay` arrow was asked for. Raises NotReplayable or VersionChanged if it stayed."""
    job = Job.objects.select_related("type", "tenant").get(pk=job_id)
    if not moved:
        if seen is not None and job.version != seen:
            raise VersionChanged(seen, job.version)
        raise NotReplayable(job.state, _why(job))
    return job


def refer_again(job: Job) -> None:
    """The files of its payload must be there still, and stay. Raises NotReplayable."""
    crashpoint("replay.moved")
    for _pointer, why in inputs.refer(job.tenant_id, job.pk, inputs.references(job.payload)):
        raise NotReplayable(job.state, why)


def why_not(job: Job) -> str:
    """Why a replay of this job would be refused now; empty when it would not be. For a look before it is asked for."""
    may = job.state in JOB.arrows["replay"].sources and endings.holds(job.pk, MAY_BEGIN)
    return "" if may else _why(job)


def _why(job: Job) -> str:
    if job.state not in JOB.arrows["replay"].sources:
        return f"the job is {job.state}; only a failed or cancelled one can run again"
    if not job.type.accepting:
        return f"the job type {job.type.name} is closed"
    if not job.tenant.accepting:
        return f"the tenant {job.tenant.name} is closed"
    return "an attempt of it is still being found out"
