"""The claim: the next turns of a pool meet its free sessions, in one statement."""

import json
from collections.abc import Sequence
from datetime import datetime

from jobs.queries.line import WAITS, WINDOW
from jobs.states import INTENDED, JOB
from pool.states import RESOURCE
from statemachine.actors import current_actor
from statemachine.sql import Row, fetch

# A literal in the SQL: `LIMIT (parameter or subquery)` is planned for 10 % of the table.
BATCH = 10
LEFT_PAUSE = (
    "interval '50 milliseconds'"  # a race is over by then, and whatever else it is does not go round at full speed
)

# Sessions of the least recently used account go first. Both sides skip what others have locked, so the claim never waits.
# The session's own word of a quarantine is read on the row that is locked, the pool's is also true of sessions made since.
FREE = f"""
        SELECT r.id, r.account_id, r.fence + 1 AS fence
        FROM pool_resource r
        JOIN (SELECT account_id, max(used_at) AS used_at FROM pool_resource WHERE pool_id = %(pool)s
              GROUP BY account_id) a ON a.account_id = r.account_id
        WHERE r.pool_id = %(pool)s AND r.state IN {RESOURCE.guard("reserve")} AND r.accepting
          AND NOT r.quarantined
          AND (SELECT accepting AND quarantined_at IS NULL {{allowed}} FROM pool_pool WHERE id = %(pool)s) {{more}}
        ORDER BY a.used_at NULLS FIRST, r.used_at NULLS FIRST, r.id
        LIMIT {BATCH} FOR NO KEY UPDATE OF r SKIP LOCKED"""
TURNS = f"""
        SELECT j.id, j.turn, j.run, j.attempts + 1 AS number, j.cost
        FROM jobs_job j
        WHERE j.pool_id = %(pool)s AND j.state IN {JOB.guard("assign")} AND j.turn IS NOT NULL
        ORDER BY j.turn, j.id
        LIMIT {{most}} FOR NO KEY UPDATE SKIP LOCKED"""

# assign need not reach the disk: what a crash takes back is consistent, and the intent makes it durable.
_TOLD = """
WITH told AS MATERIALIZED (
    SELECT set_config('berth.cause', 'assign', true), set_config('berth.actor', %(actor)s, true),
           set_config('synchronous_commit', 'off', true)),"""
_MEETING = f"""
free AS MATERIALIZED (
    SELECT f.*, row_number() OVER () AS n FROM ({FREE.format(allowed="AND NOT tracks_credits", more="")}) f),
turns AS MATERIALIZED (
    SELECT t.*, row_number() OVER () AS n FROM ({TURNS.format(most=BATCH)}) t
    WHERE EXISTS (SELECT 1 FROM free)),
pairs AS MATERIALIZED (
    SELECT t.id AS job_id, t.turn, t.run, t.number, f.id AS resource_id, f.account_id, f.fence
    FROM free f JOIN turns t ON t.n = f.n),"""
_GIVEN = """
pairs AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(pairs)s::jsonb) AS p(
        job_id uuid, turn double precision, run integer, number integer, resource_id bigint, account_id bigint,
        fence bigint)),"""
_TAKE = f"""
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
                              error_class, error_code, error_message, reference, holder, sendings, lease_until, opened_at)
    -- Its own clock: a statement's time is that of its message, which may have come before the session was free.
    SELECT p.job_id, p.resource_id, p.account_id, p.run, p.number, 'job.' || p.job_id || '.a' || p.number, p.fence,
           '{INTENDED}', '', '', '', '', '', '', 0, clock_timestamp() + make_interval(secs => %(lease)s), clock_timestamp()
    FROM pairs p)
SELECT m.*, EXISTS (SELECT 1 FROM short s WHERE s.tenant_id = m.tenant_id) AS line_short
FROM pool_pool p LEFT JOIN moved m ON true WHERE p.id = %(pool)s AND (m.id IS NOT NULL OR p.tracks_credits)"""

_CLAIM = _TOLD + _MEETING + _TAKE
_CLAIM_GIVEN = _TOLD + _GIVEN + _TAKE


def claim(pool_id: int, lease_seconds: float) -> list[Row] | None:
    """Assigns up to BATCH jobs of the pool; rows are the moved jobs with what their machine carries.

    None: accounts of this pool have a balance, and `affording` decides who meets whom.

    `line_short`: the tenant has more jobs, and half its window or less still stands in line: promotion is due. Asking
    for it with each assign would cost more than the assign.
    """
    rows = fetch(_CLAIM, {"pool": pool_id, "lease": lease_seconds, "actor": current_actor()})
    return None if rows and rows[0]["id"] is None else rows


def take(pool_id: int, pairs: Sequence[Row], lease_seconds: float) -> list[Row]:
    """Assigns these pairs, whose jobs and sessions the caller has locked as they stand; rows as of `claim`."""
    terms = {"pool": pool_id, "lease": lease_seconds, "actor": current_actor()}
    return fetch(_CLAIM_GIVEN, {**terms, "pairs": json.dumps(pairs, default=str)})


def look_again_at(pool_id: int) -> datetime | None:
    """A moment from now, where a session is free and a job has its turn although a claim was just made.

    A claim locks a batch on each side and may need fewer; who comes meanwhile skips them and finds nothing. None where
    accounts have a balance: there a free session may be of no use for the jobs that wait.
    """
    rows = fetch(
        f"""SELECT clock_timestamp() + {LEFT_PAUSE} AS at FROM pool_pool p
            WHERE p.id = %s AND p.accepting AND p.quarantined_at IS NULL AND NOT p.tracks_credits
            AND EXISTS (SELECT FROM pool_resource r WHERE r.pool_id = p.id AND r.state IN {RESOURCE.guard("reserve")}
                        AND r.accepting AND NOT r.quarantined)
            AND EXISTS (SELECT FROM jobs_job j WHERE j.pool_id = p.id AND j.state IN {JOB.guard("assign")}
                        AND j.turn IS NOT NULL)""",
        [pool_id],
    )
    return rows[0]["at"] if rows else None


def with_free_sessions(pool_ids: Sequence[int]) -> list[int]:
    """Those of the pools that have a session to give; asked after a commit, so that a claim for nothing is not woken."""
    rows = fetch(
        f"""SELECT DISTINCT pool_id FROM pool_resource
            WHERE pool_id = ANY(%s) AND state IN {RESOURCE.guard("reserve")} AND accepting AND NOT quarantined
            ORDER BY pool_id""",
        [list(pool_ids)],
    )
    return [row["pool_id"] for row in rows]
