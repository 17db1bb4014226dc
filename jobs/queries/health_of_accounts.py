"""What attempts tell of their accounts, asked only where a call failed; and accounts in trouble, for those who look."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.states import ACCEPTED, CALLING, PROVEN_SQL
from pool.queries.health import SPEAKS_FOR_SECONDS
from statemachine.sql import Row, fetch

_STANDING = """
SELECT a.id, a.fence, a.account_id, c.pool_id, a.resource_id, a.called_at, a.job_id, j.tenant_id
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint)
JOIN jobs_attempt a ON a.id = v.id AND a.fence = v.fence
JOIN jobs_job j ON j.id = a.job_id
JOIN pool_upstreamaccount c ON c.id = a.account_id
WHERE a.ended_at IS NULL AND a.called_at IS NOT NULL ORDER BY a.id FOR NO KEY UPDATE OF a"""

_REFUSED = """
SELECT a.job_id, a.account_id FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id AND j.run = a.run
WHERE a.job_id = ANY(%s) AND a.ended_at IS NOT NULL AND a.error_class = 'auth' AND a.error_code <> %s"""

# Both by partial indexes: attempts that are open, and those that ended and whose jobs did not hear of it yet.
_GOES_ON = f"""
SELECT EXISTS (
    SELECT FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id
    WHERE r.pool_id = %(pool)s AND a.ended_at IS NOT NULL AND a.finished_at IS NULL AND a.verdict IN {PROVEN_SQL}
      AND LEAST(a.ended_at, a.called_at + make_interval(secs => {SPEAKS_FOR_SECONDS})) > %(since)s)
OR %(under_way)s AND EXISTS (
    SELECT FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id
    WHERE r.pool_id = %(pool)s AND a.ended_at IS NULL AND a.phase IN ('{CALLING}', '{ACCEPTED}') AND a.verdict = ''
      AND a.called_at > %(since)s
      AND (a.phase = '{ACCEPTED}' OR a.called_at < clock_timestamp() - interval '1 second')) AS goes_on"""

_IN_TROUBLE = """
SELECT p.id AS pool_id, p.name AS pool, a.id AS account_id, a.name AS account, h.failures, h.level, h.why,
       h.open_until, h.open_until > clock_timestamp() AS quarantined, h.open_until IS NOT NULL AS is_open,
       h.failed_at, COALESCE(r.refused, 0) AS refused, COALESCE(r.note, '') AS note
FROM pool_upstreamaccount a JOIN pool_pool p ON p.id = a.pool_id
LEFT JOIN pool_accounthealth h ON h.account_id = a.id
LEFT JOIN (SELECT account_id, count(*) AS refused, max(note) AS note FROM pool_resource WHERE refused
           GROUP BY account_id) r ON r.account_id = a.id
WHERE (h.account_id IS NOT NULL OR r.refused > 0) AND (%(account)s::bigint IS NULL OR a.id = %(account)s)
ORDER BY p.name, a.name, a.id LIMIT 1000"""
_POOLS_AT_REST = """
SELECT p.id AS pool_id, p.name AS pool, h.why, h.open_until, h.open_until > clock_timestamp() AS quarantined
FROM pool_poolhealth h JOIN pool_pool p ON p.id = h.pool_id WHERE h.open_until IS NOT NULL ORDER BY p.name"""


def standing(keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Row]:
    """Locks the open attempts among these (id, fence), in id order: account_id, pool_id, resource_id, called_at, job_id and
    tenant_id, by (id, fence).
    """
    given = json.dumps([{"id": attempt_id, "fence": fence} for attempt_id, fence in keys])
    return {(row["id"], row["fence"]): row for row in fetch(_STANDING, [given])}


def refused(job_ids: Sequence[UUID], but_code: str) -> dict[UUID, list[int]]:
    """Which account refused these jobs each time in their present run, those with an error of `but_code` excepted."""
    found: dict[UUID, list[int]] = {}
    for row in fetch(_REFUSED, [list(job_ids), but_code]) if job_ids else []:
        found.setdefault(row["job_id"], []).append(row["account_id"])
    return found


def is_alone(pool_id: int, tenant_id: int) -> bool:
    """Whether no other tenant ever had a job in line in the pool."""
    others = "SELECT EXISTS (SELECT FROM jobs_line WHERE pool_id = %s AND tenant_id <> %s) AS others"
    return not fetch(others, [pool_id, tenant_id])[0]["others"]


def goes_on(pool_id: int, since: datetime, under_way: bool) -> bool:
    """Whether a call of the pool has succeeded since then, though its job was not finished yet, or one sent since then is
    under way for a second and was not refused.
    """
    terms: dict[str, Any] = {"pool": pool_id, "since": since, "under_way": under_way}
    return bool(fetch(_GOES_ON, terms)[0]["goes_on"])


def in_trouble(account_id: int | None = None) -> list[Row]:
    """Accounts that failed or were refused lately (or this one): failures, why, open_until, is_open (quarantined, or only
    its probe may run), quarantined (now), failed_at, refused (sessions), note.
    """
    return fetch(_IN_TROUBLE, {"account": account_id})


def pools_at_rest() -> list[Row]:
    """Pools that rest as one, or whose probe has not answered yet: pool, why, open_until, quarantined."""
    return fetch(_POOLS_AT_REST)
