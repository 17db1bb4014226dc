"""What a tenant may read of its jobs: every question names the tenant, so another's id finds nothing."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs.models import JobType
from statemachine.sql import Row, fetch
from tenants.models import Tenant

MOST_AHEAD = 1_000  # further back the place in the line is not counted
INLINE_BYTES = 65_536  # a larger result is fetched by its own address
INLINE_BYTES_IN_LISTS = 4_096
MOST_HISTORY = 1_000
MOST_TYPES = 1_000
CLOCKS_APART = timedelta(hours=1)  # ids are made by the web processes' clocks, created_at by the database's

_COLUMNS = """
    j.id, t.name AS type, j.state, j.version, j.turn, j.due_at, j.attempts, j.tries, j.crashes, j.cancel_requested_at,
    j.unaffordable, j.price, j.charged, j.error, j.metadata, j.created_at, j.assigned_at, j.started_at, j.finished_at,
    CASE WHEN pg_column_size(j.result) <= {inline} THEN j.result END AS result,
    a.phase AS attempt_phase, a.verdict AS attempt_verdict, a.progress, clock_timestamp() AS now,
    j.state = 'pending' AND EXISTS (
        SELECT FROM pool_pool p WHERE p.id = j.pool_id AND p.quarantined_at IS NOT NULL) AS pool_closed"""
_FROM = """
    FROM jobs_job j JOIN jobs_jobtype t ON t.id = j.type_id
    LEFT JOIN jobs_attempt a ON a.job_id = j.id AND a.ended_at IS NULL"""
_AHEAD = f"""
    CASE WHEN j.state = 'pending' AND j.turn IS NOT NULL THEN (
        SELECT count(*) FROM (
            SELECT FROM jobs_job f WHERE f.pool_id = j.pool_id AND f.state = 'pending' AND f.turn IS NOT NULL
              AND (f.turn, f.id) < (j.turn, j.id) LIMIT {MOST_AHEAD}) before) END AS ahead"""
_ONE = f"SELECT {_COLUMNS.format(inline=INLINE_BYTES)}, {_AHEAD} {_FROM} WHERE j.tenant_id = %s AND j.id = %s"
_SUBMITTED = f"SELECT {_COLUMNS.format(inline=INLINE_BYTES)} {_FROM} WHERE j.tenant_id = %s AND j.id = %s"


def job(tenant_id: int, job_id: UUID) -> Row | None:
    """One job with its place in the line; None when the tenant has no such job."""
    return _first(fetch(_ONE, [tenant_id, job_id]))


def submitted(tenant_id: int, job_id: UUID) -> Row | None:
    """The same without the place in the line, which nobody asked for at submit."""
    return _first(fetch(_SUBMITTED, [tenant_id, job_id]))


def result(tenant_id: int, job_id: UUID) -> Row | None:
    """The whole result, however large, with state, error and what Retry-After needs."""
    return _first(fetch(f"SELECT {_COLUMNS.format(inline=2**31)} {_FROM} WHERE j.tenant_id = %s AND j.id = %s",
                        [tenant_id, job_id]))  # fmt: skip


def jobs(tenant_id: int, filters: Mapping[str, Any], before: UUID | None, limit: int) -> list[Row]:
    """Newest first, at most `limit`, those before the id `before`; filters: state, type, created_after."""
    conditions: list[str] = ["j.tenant_id = %s"]
    values: list[Any] = [tenant_id]
    for column, name in (("j.state", "state"), ("t.name", "type"), ("j.created_at", "created_after")):
        if name in filters:
            conditions.append(f"{column} {'>' if name == 'created_after' else '='} %s")
            values.append(filters[name])
    if "created_after" in filters:
        # Ids begin with their time: the index that gives the order also ends the search.
        conditions.append("j.id >= %s")
        values.append(earliest_id(filters["created_after"] - CLOCKS_APART))
    if before is not None:
        conditions.append("j.id < %s")
        values.append(before)
    columns = _COLUMNS.format(inline=INLINE_BYTES_IN_LISTS)
    where = " AND ".join(conditions)
    return fetch(f"SELECT {columns} {_FROM} WHERE {where} ORDER BY j.id DESC LIMIT {int(limit)}", values)


def moves(tenant_id: int, job_id: UUID) -> list[Row]:
    """The history of a job, oldest first."""
    return fetch(
        f"""
        SELECT m.from_state, m.to_state, m.cause, m.actor, m.at FROM jobs_jobmove m
        JOIN jobs_job j ON j.id = m.subject_id
        WHERE j.tenant_id = %s AND m.subject_id = %s ORDER BY m.id LIMIT {MOST_HISTORY}""",
        [tenant_id, job_id],
    )


def attempts(tenant_id: int, job_id: UUID) -> list[Row]:
    """The tries of a job, oldest first: nothing of the upstream's ids, accounts or costs."""
    return fetch(
        f"""
        SELECT a.number, a.run, a.phase, a.verdict, a.error_class, a.error_code, a.error_message,
               a.opened_at, a.called_at, a.ended_at
        FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id
        WHERE j.tenant_id = %s AND a.job_id = %s ORDER BY a.number LIMIT {MOST_HISTORY}""",
        [tenant_id, job_id],
    )


def exists(tenant_id: int, job_id: UUID) -> bool:
    """Whether the tenant has this job."""
    return bool(fetch("SELECT 1 AS found FROM jobs_job WHERE tenant_id = %s AND id = %s", [tenant_id, job_id]))


def versions(job_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The versions of many jobs in one question, for those who wait for them."""
    rows = fetch("SELECT id, version FROM jobs_job WHERE id = ANY(%s)", [list(job_ids)])
    return {row["id"]: row["version"] for row in rows}


def job_types(tenant: Tenant) -> list[JobType]:
    """The types this tenant may submit, by name."""
    found = JobType.objects.select_related("pool").filter(accepting=True).order_by("name")
    if tenant.job_types is not None:
        found = found.filter(name__in=tenant.job_types)
    return list(found[:MOST_TYPES])


def _first(rows: Sequence[Row]) -> Row | None:
    return rows[0] if rows else None


def earliest_id(moment: datetime) -> UUID:
    """The smallest UUIDv7 made at `moment` or later: 48 bits of milliseconds, then zeros."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=(milliseconds << 80) & (2**128 - 1))
