"""The intent to send a job's attempt: only when it is committed may anybody call; then it counts as maybe sent."""

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from jobs.queries import attempts
from jobs.states import JOB
from pool.states import RESOURCE
from statemachine.crashpoints import crashpoint


def intend(job_ids: Sequence[UUID], holder: str, cause: str = "") -> list[int]:
    """ASSIGNED → PROCESSING within the caller's transaction; ids of the attempts that `holder` may send when it is committed.

    Locks jobs, attempts, sessions. A second caller finds the jobs processing and gets nothing. Raises RuntimeError where a
    job stands assigned without an intended attempt on a reserved session.
    """
    moved = JOB.take(
        "dispatch",
        [{"id": job_id} for job_id in job_ids],
        columns={"started_at": "COALESCE(t.started_at, clock_timestamp())"},
        cause=cause,
    )
    crashpoint("dispatch.moved", moved)
    begun = attempts.begin([job.id for job in moved], holder, settings.LEASE_SECONDS)
    crashpoint("dispatch.begun", begun)
    sessions = [{"id": attempt["resource_id"], "fence": attempt["fence"]} for attempt in begun]
    used = RESOURCE.take("use", sessions, match=["fence"], cause=cause)
    if not len(moved) == len(begun) == len(used):
        raise RuntimeError(f"jobs {job_ids} stand assigned without an intended attempt on a reserved session")
    return [attempt["id"] for attempt in begun]
