"""The claim: the next turns of a pool meet its free sessions, in one statement."""

from collections.abc import Sequence

from jobs.queries.line import WAITS, WINDOW
from jobs.states import INTENDED, JOB
from pool.states import RESOURCE
from statemachine.actors import current_actor
from statemachine.sql import Row, fetch

# A literal in the SQL: `LIMIT (parameter or subquery)` is planned for 10 % of the table.
BATCH = 10

# Both sides skip what others have locked, so the claim never waits. Sessions of the least recently used account go
# first. assign need not reach the disk: what a crash takes back is consistent, and the intent makes it durable.
_CLAIM = f"""
WITH told AS MATERIALIZED (
    SELECT set_config('berth.cause', 'assign', true), set_config('berth.actor', %(actor)s, true),
           set_config('synchronous_commit', 'off', true)),
free AS MATERIALIZED (
    SELECT f.*, row_number() OVER () AS n FROM (
        SELECT r.id, r.account_id, r.fence + 1 AS fence
        FROM pool_resource r
        JOIN (SELECT account_id, max(used_at) AS used_at FROM pool_resource WHERE pool_id = %(pool)s
              GROUP BY account_id) a ON a.account_id = r.account_id
        WHERE r.pool_id = %(pool)s AND r.state IN {RESOURCE.guard("reserve")} AND r.accepting
          AND (SELECT accepting FROM pool_pool WHERE id = %(pool)s)
        ORDER BY a.used_at NULLS FIRST, r.used_at NULLS FIRST, r.id
        LIMIT {BATCH} FOR NO KEY UPDATE OF r SKIP LOCKED) f),
turns AS MATERIALIZED (
    SELECT t.*, row_number() OVER () AS n FROM (
        SELECT j.id, j.turn, j.run, j.attempts + 1 AS number
        FROM jobs_job j
        WHERE j.pool_id = %(pool)s AND j.state IN {JOB.guard("assign")} AND j.turn IS NOT NULL
        ORDER BY j.turn, j.id
        LIMIT {BATCH} FOR NO KEY UPDATE SKIP LOCKED) t
    WHERE EXISTS (SELECT 1 FROM free)),
pairs AS MATERIALIZED (
    SELECT t.id AS job_id, t.turn, t.run, t.number, f.id AS resource_id, f.account_id, f.fence
    FROM free f JOIN turns t ON t.n = f.n),
moved AS (
    UPDATE jobs_job j SET state = {JOB.target("assign")}, version = j.version + 1, attempts = p.number,
           assigned_at = clock_timestamp()
    FROM pairs p, told WHERE j.id = p.job_id
    RETURNING j.id, j.pool_id, j.tenant_id, j.turn, j.due_at),
taken AS (
    SELECT tenant_id, count(*) AS n FROM moved GROUP BY tenant_id),
short AS (
    SELECT k.tenant_id FROM taken k JOIN tenants_tenant t ON t.id = k.tenant_id JOIN pool_pool p ON p.id = %(pool)s
    WHERE 2 * ((SELECT count(*) FROM jobs_job s WHERE s.tenant_id = k.tenant_id AND s.pool_id = p.id
                AND s.state = 'pending' AND s.turn IS NOT NULL) - k.n) <= {WINDOW}
      AND {WAITS}),
reserved AS (
    UPDATE pool_resource r SET state = {RESOURCE.target("reserve")}, version = r.version + 1, fence = p.fence,
           job_id = p.job_id, used_at = clock_timestamp()
    FROM pairs p, told WHERE r.id = p.resource_id),
advanced AS (
    UPDATE pool_pool SET virtual_time = GREATEST(virtual_time, (SELECT max(turn) FROM pairs))
    WHERE id = %(pool)s AND virtual_time < (SELECT max(turn) FROM pairs)),
opened AS (
    INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict,
                              error_class, error_code, error_message, reference, holder, sendings, lease_until)
    SELECT p.job_id, p.resource_id, p.account_id, p.run, p.number, 'job.' || p.job_id || '.a' || p.number, p.fence,
           '{INTENDED}', '', '', '', '', '', '', 0, clock_timestamp() + make_interval(secs => %(lease)s)
    FROM pairs p)
SELECT m.*, EXISTS (SELECT 1 FROM short s WHERE s.tenant_id = m.tenant_id) AS line_short FROM moved m"""


def claim(pool_id: int, lease_seconds: float) -> list[Row]:
    """Assigns up to BATCH jobs of the pool; rows are the moved jobs with what their machine carries.

    `line_short`: the tenant has more jobs, and half its window or less still stands in line: promotion is due. Asking
    for it with each assign would cost more than the assign.
    """
    return fetch(_CLAIM, {"pool": pool_id, "lease": lease_seconds, "actor": current_actor()})


def with_free_sessions(pool_ids: Sequence[int]) -> list[int]:
    """Those of the pools that have a session to give; asked after a commit, so that a claim for nothing is not woken."""
    rows = fetch(
        f"""SELECT DISTINCT pool_id FROM pool_resource
            WHERE pool_id = ANY(%s) AND state IN {RESOURCE.guard("reserve")} AND accepting ORDER BY pool_id""",
        [list(pool_ids)],
    )
    return [row["pool_id"] for row in rows]
