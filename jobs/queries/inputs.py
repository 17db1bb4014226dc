"""Which jobs still need the files they refer to, and what upstreams tell of them."""

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


def ended_within(job_id: UUID, seconds: float) -> bool:
    """Whether the job is there, and goes on or has ended no longer ago than that."""
    sql = """SELECT 1 AS yes FROM jobs_job
             WHERE id = %s AND (finished_at IS NULL OR finished_at > clock_timestamp() - make_interval(secs => %s))"""
    return bool(fetch(sql, [job_id, seconds]))
