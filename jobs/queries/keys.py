"""Idempotency keys: the first question of every submit."""

from statemachine.sql import Row, fetch


def job_of_key(tenant_id: int, key: str) -> Row | None:
    """The id and fingerprint of the job that this tenant's key made, if there is one."""
    rows = fetch("SELECT id, fingerprint FROM jobs_job WHERE tenant_id = %s AND idempotency_key = %s", [tenant_id, key])
    return rows[0] if rows else None
