"""Whose a result is."""

from uuid import UUID

from statemachine.sql import fetch


def owner(job_id: UUID) -> int:
    """The tenant of this job, which is there."""
    return int(fetch("SELECT tenant_id FROM jobs_job WHERE id = %s", [job_id])[0]["tenant_id"])
