"""The claim in a pool whose accounts have a balance: no session is given to a job that its account cannot pay for."""

from collections.abc import Sequence
from uuid import UUID

from jobs.queries.claim import BATCH, FREE, TURNS
from jobs.queries.missed import MOST
from jobs.states import JOB
from statemachine.sql import Row, fetch

LOOK = 5 * BATCH  # turns that are looked at, so that a few that must wait for a richer account hold up nobody
NOBODY = -1  # what the richest account has, where none takes jobs
LONGEST_WAIT = "interval '1 hour'"  # until a job that nobody can pay for is looked at whatever the balances say

_FREE = FREE.format(allowed="accepting")
_TURNS = TURNS.format(most=LOOK)

_ONE_TURN = f"""
SELECT j.id, j.turn, j.run, j.attempts + 1 AS number, j.cost FROM jobs_job j
WHERE j.id = %s AND j.state IN {JOB.guard("assign")} AND j.turn IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED"""
_NEXT = f"""
SELECT id FROM jobs_job WHERE pool_id = %s AND state IN {JOB.guard("assign")} AND turn IS NOT NULL
ORDER BY turn, id LIMIT {BATCH}"""

# What the richest account of each pool has for a new attempt, whether or not a session of it is free now.
# NULL: one of them is not tracked, and can pay for anything.
_RICHEST = """
SELECT p.id AS pool_id, CASE WHEN bool_and(b.account_id IS NOT NULL) THEN max(b.posted - b.held) END AS most
FROM pool_pool p JOIN pool_upstreamaccount u ON u.pool_id = p.id
LEFT JOIN credits_account a ON a.ledger = 'resource:' || p.id AND a.kind = 'upstream' AND a.owner_id = u.id
LEFT JOIN credits_balance b ON b.account_id = a.id
WHERE p.tracks_credits AND EXISTS (
    SELECT FROM pool_resource r WHERE r.account_id = u.id AND r.accepting AND NOT r.disabled AND r.state <> 'offline')
GROUP BY p.id"""

# The last entry of the partial index by pool and cost.
_DEAREST = """
SELECT cost FROM jobs_job WHERE pool_id = %s AND state = 'pending' AND unaffordable ORDER BY cost DESC LIMIT 1"""

_PARK = f"""
UPDATE jobs_job SET turn = NULL, unaffordable = true,
       due_at = clock_timestamp() + {LONGEST_WAIT} * (1 + random()) / 2, version = version + 1
WHERE id = ANY(%s) AND state = 'pending'
RETURNING id, pool_id, tenant_id, turn, due_at"""

_AFFORDABLE = f"""
SELECT j.id FROM ({_RICHEST}) r CROSS JOIN LATERAL (
    SELECT id FROM jobs_job WHERE pool_id = r.pool_id AND state = 'pending' AND unaffordable
       AND (r.most IS NULL OR cost <= r.most) ORDER BY cost, id LIMIT {MOST}) j"""


def free_sessions(pool_id: int) -> list[Row]:
    """Locks free sessions (id, account_id, fence), those of the least recently used account first; skips locked ones."""
    return fetch(_FREE, {"pool": pool_id})


def turns(pool_id: int) -> list[Row]:
    """Locks the next turns (id, turn, run, number, cost); skips locked ones."""
    return fetch(_TURNS, {"pool": pool_id})


def one_turn(job_id: UUID) -> list[Row]:
    """Locks this job, if it has a turn and nobody has locked it; a row as of `turns`."""
    return fetch(_ONE_TURN, [job_id])


def next_turns(pool_id: int) -> list[UUID]:
    """The jobs whose turn is next, as many as one claim takes; locks nothing."""
    return [row["id"] for row in fetch(_NEXT, [pool_id])]


def richest(pool_id: int) -> int | None:
    """What the richest account of the pool has; None: any amount. NOBODY: none takes jobs."""
    found = fetch(f"SELECT most FROM ({_RICHEST}) r WHERE pool_id = %s", [pool_id])
    most = found[0]["most"] if found else NOBODY
    return None if most is None else int(most)


def dearest(pool_id: int) -> int:
    """What the dearest of the jobs wants that wait for an account that can pay; 0 when none does."""
    found = fetch(_DEAREST, [pool_id])
    return int(found[0]["cost"]) if found else 0


def park(job_ids: Sequence[UUID]) -> list[Row]:
    """These (locked) jobs stand in no line until an account can pay for them; rows are those that had a turn."""
    return fetch(_PARK, [list(job_ids)]) if job_ids else []


def affordable_again() -> list[UUID]:
    """Jobs that an account of their pool can pay for by now."""
    return [row["id"] for row in fetch(_AFFORDABLE)]
