"""Attempts under way, for those who look at them: what `inquiry` and `verdicts` decide by, without payloads and credentials."""

from collections.abc import Sequence
from uuid import UUID

from jobs.flight import Flight
from jobs.queries.called_as import AS_CALLED
from jobs.queries.flights import OVER_MS, OVERDUE
from jobs.verdicts import UPSTREAM_REFUSED
from statemachine.sql import Row, fetch

_UNDER_WAY = f"""
SELECT a.id AS attempt_id, a.fence, a.job_id, a.resource_id, a.dispatch_key, a.sendings, a.reference, a.phase, a.verdict,
       a.error_code, a.error_message, a.asks_failed, a.progress, a.told_at, a.called_at, a.asked_at, a.look_at,
       a.lease_until, a.cancels, a.cancel_at, {OVERDUE} AS ends_at, {OVERDUE} <= clock_timestamp() AS waited_out,
       a.asked_at >= {OVERDUE} AS asked_since, clock_timestamp() AS now,
       j.cancel_requested_at IS NOT NULL AS cancel_wanted, {AS_CALLED},
       j.state, j.crashes, j.tries, j.max_attempts, j.cancel_requested_at, jt.delivery, jt.retry, {OVER_MS} AS over_ms,
       jt.upstream::text AS type_upstream, p.upstream::text AS pool_upstream,
       CASE WHEN p.quarantined_until > clock_timestamp() THEN p.quarantined_until END AS closed_until
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN pool_upstreamaccount c ON c.id = a.account_id
JOIN pool_pool p ON p.id = c.pool_id
WHERE a.job_id = ANY(%s) AND a.ended_at IS NULL AND a.called_at IS NOT NULL ORDER BY a.id"""

_WHOLE_ERRORS = f"""
SELECT DISTINCT ON (a.job_id) a.job_id, a.error_code AS code, a.error_message AS message
FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id AND j.run = a.run
WHERE a.job_id = ANY(%s) AND j.error->>'code' = '{UPSTREAM_REFUSED}' AND a.error_code <> ''
ORDER BY a.job_id, a.number DESC"""


def under_way(job_ids: Sequence[UUID]) -> dict[UUID, Flight]:
    """By job, the attempt that the upstream may have; nothing is locked. Its row cannot be sent from."""
    rows = fetch(_UNDER_WAY, [list(job_ids)]) if job_ids else []
    return {
        row["job_id"]: Flight(row["attempt_id"], row["fence"], row["job_id"], row["resource_id"], row) for row in rows
    }


def whole_errors(job_ids: Sequence[UUID]) -> dict[UUID, Row]:
    """By job, what the upstream said where tenants only read that it refused an account: code, message."""
    return {row["job_id"]: row for row in fetch(_WHOLE_ERRORS, [list(job_ids)])} if job_ids else {}
