"""Open attempts with all their call needs: those just begun, those in doubt, those whose lease has lapsed."""

from collections.abc import Sequence
from uuid import UUID

from jobs.findings import Flight
from jobs.states import CALLING, UNKNOWN
from statemachine.sql import fetch

_FLIGHT = """
SELECT a.id AS attempt_id, a.fence, a.job_id, a.resource_id, a.dispatch_key, a.number, a.sendings, a.reference,
       a.error_code, a.called_at + make_interval(secs => t.max_runtime_ms / 1000.0) <= clock_timestamp() AS waited_out,
       j.payload, j.metadata, j.crashes, t.name AS type, t.upstream AS type_upstream, t.max_runtime_ms, t.retry,
       tt.name AS tenant, c.name AS account, c.sealed_credential, c.labels, c.vars, c.base_url, c.pool_id,
       p.upstream AS pool_upstream, p.cooldown_ms,
       EXISTS (SELECT FROM pool_accounthealth h WHERE h.account_id = c.id AND h.open_until IS NOT NULL)
       OR EXISTS (SELECT FROM pool_poolhealth q WHERE q.pool_id = p.id AND q.open_until IS NOT NULL) AS on_probe
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN jobs_jobtype t ON t.id = j.type_id
JOIN tenants_tenant tt ON tt.id = j.tenant_id
JOIN pool_upstreamaccount c ON c.id = a.account_id
JOIN pool_pool p ON p.id = c.pool_id
WHERE a.ended_at IS NULL AND {where} ORDER BY a.id {lock}"""
_LOCKED = "FOR NO KEY UPDATE OF a"


def opened(attempt_ids: Sequence[int]) -> list[Flight]:
    """These attempts, if they are still open."""
    return _flights("a.id = ANY(%s)", list(attempt_ids), "")


def doubted(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the doubted attempts of these jobs that are due to be looked at."""
    return _flights("a.job_id = ANY(%s) AND a.look_at <= clock_timestamp()", list(job_ids), _LOCKED)


def undecided(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs whose outcome is unknown and that nobody is sending."""
    where = f"a.job_id = ANY(%s) AND a.verdict = '{UNKNOWN}' AND a.lease_until IS NULL"
    return _flights(where, list(job_ids), _LOCKED)


def lapsed(job_ids: Sequence[UUID]) -> list[Flight]:
    """Locks the attempts of these jobs that were calling when their lease ended."""
    where = f"a.job_id = ANY(%s) AND a.phase = '{CALLING}' AND a.lease_until <= clock_timestamp()"
    return _flights(where, list(job_ids), _LOCKED)


def _flights(where: str, ids: list[int] | list[UUID], lock: str) -> list[Flight]:
    rows = fetch(_FLIGHT.format(where=where, lock=lock), [ids])
    return [Flight(row["attempt_id"], row["fence"], row["job_id"], row["resource_id"], row) for row in rows]
