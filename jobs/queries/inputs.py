"""Which jobs still need the files they refer to."""

from collections.abc import Collection
from uuid import UUID

from jobs.states import JOB
from statemachine.sql import fetch


def unfinished(job_ids: Collection[UUID]) -> set[UUID]:
    """Those of these jobs that have not ended."""
    if not job_ids:
        return set()
    sql = "SELECT id FROM jobs_job WHERE id = ANY(%s) AND state <> ALL(%s)"
    return {row["id"] for row in fetch(sql, [sorted(job_ids), sorted(JOB.terminal)])}
