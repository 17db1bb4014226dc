"""The end of jobs in sets: what their ended attempts say, and marking the consequences as drawn."""

from collections.abc import Sequence
from uuid import UUID

from jobs.queries.line import CAP
from pool.queries.health import AILING
from statemachine.sql import Row, fetch

_LOCK = "SELECT id FROM jobs_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"

_ENDED = f"""
SELECT j.id, j.tenant_id, j.pool_id, j.state, j.run, j.version, j.tries, j.crashes, j.max_attempts, j.price, j.settle,
       j.overrun, j.payload, j.cancel_requested_at, j.started_at, j.metadata, t.name AS tenant, p.name AS pool, jt.name AS type,
       jt.delivery, jt.retry, a.id AS attempt_id, a.number, a.verdict, a.error_class, a.error_code, a.error_message,
       a.retry_after_ms, a.units, a.result, a.run AS attempt_run, a.reported_cost, a.usage_problem,
       j.cost, jt.cost <> '' AS has_cost, p.tracks_credits, clock_timestamp() AS now,
       {CAP} IS NOT NULL AS capped, a.account_id, a.called_at, a.ended_at AS attempt_ended_at, {AILING} AS ailing
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN pool_pool p ON p.id = j.pool_id
WHERE a.job_id = ANY(%s) AND a.ended_at IS NOT NULL AND a.finished_at IS NULL AND a.fetch_at IS NULL
ORDER BY j.id FOR NO KEY UPDATE OF a"""


def lock(job_ids: Sequence[UUID]) -> None:
    """Locks the jobs in id order."""
    fetch(_LOCK, [list(job_ids)])


def ended(job_ids: Sequence[UUID]) -> list[Row]:
    """Locks the jobs in id order, then their ended and unfinished attempts; one row per attempt."""
    lock(job_ids)
    return fetch(_ENDED, [list(job_ids)])


def mark_finished(attempt_ids: Sequence[int]) -> None:
    """The consequences of these attempts are drawn."""
    fetch("UPDATE jobs_attempt SET finished_at = clock_timestamp() WHERE id = ANY(%s)", [list(attempt_ids)])


def count_crashes(job_ids: Sequence[UUID]) -> None:
    """Each of these (locked) jobs lost its worker once more: a budget apart from its tries."""
    if job_ids:
        fetch("UPDATE jobs_job SET crashes = crashes + 1 WHERE id = ANY(%s)", [list(job_ids)])


def holds(job_id: UUID, condition: str) -> bool:
    """Whether an SQL condition over the job `t` holds now; nothing is locked."""
    return bool(fetch(f"SELECT 1 AS yes FROM jobs_job t WHERE t.id = %s AND {condition}", [job_id]))


def flag(job_id: UUID, why: str) -> None:
    """An operator should look at this (locked) job; what was flagged before stays."""
    fetch(
        """UPDATE jobs_job SET flagged = concat_ws('; ', NULLIF(flagged, ''), %s::text), version = version + 1
           WHERE id = %s""",
        [why, job_id],
    )


def dismiss(job_ids: Sequence[UUID]) -> int:
    """Puts dead letters aside; locks them in id order. Returns how many were not yet."""
    rows = fetch(
        """
        WITH locked AS (
            SELECT id FROM jobs_job WHERE id = ANY(%s) AND state = 'failed' AND dismissed_at IS NULL
            ORDER BY id FOR NO KEY UPDATE)
        UPDATE jobs_job j SET dismissed_at = clock_timestamp(), version = j.version + 1
        FROM locked l WHERE j.id = l.id RETURNING j.id""",
        [list(job_ids)],
    )
    return len(rows)
