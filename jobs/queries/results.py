"""Whose a result is, and what holds it."""

from uuid import UUID

from statemachine.sql import fetch


def owner(job_id: UUID) -> int:
    """The tenant of this job, which is there."""
    return int(fetch("SELECT tenant_id FROM jobs_job WHERE id = %s", [job_id])[0]["tenant_id"])


def may_end(attempt_id: int, fence: int | None) -> bool:
    """Whether a finding with this fence may still end the attempt; None: one that counts whichever stands."""
    sql = "SELECT 1 AS yes FROM jobs_attempt WHERE id = %s AND fence = COALESCE(%s, fence) AND ended_at IS NULL"
    return bool(fetch(sql, [attempt_id, fence]))


def is_result(attempt_id: int, file_id: UUID) -> bool:
    """Whether this file is what the attempt's result says."""
    sql = "SELECT 1 AS yes FROM jobs_attempt WHERE id = %s AND result->>'file' = %s"
    return bool(fetch(sql, [attempt_id, str(file_id)]))
