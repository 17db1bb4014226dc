"""The claim in a pool whose accounts have a balance: no session is given to a job that its account cannot pay for."""

from collections.abc import Sequence
from uuid import UUID

from jobs.queries.claim import BATCH, FREE, TURNS
from jobs.queries.missed import MOST
from jobs.states import JOB
from pool.states import RESOURCE
from statemachine.sql import Row, fetch

LOOK = 5 * BATCH  # turns that are looked at, so that a few that must wait for a richer account hold up nobody
NOBODY = -1  # what the richest account has, where none takes jobs
LONGEST_WAIT = "interval '1 hour'"  # until a job that nobody can pay for is looked at whatever the balances say

_FREE = FREE.format(allowed="", more="AND r.account_id = ANY(%(accounts)s::bigint[])")
_TURNS = TURNS.format(most=LOOK)

_ONE_TURN = f"""
SELECT j.id, j.turn, j.run, j.attempts + 1 AS number, j.cost FROM jobs_job j
WHERE j.id = %s AND j.state IN {JOB.guard("assign")} AND j.turn IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED"""
_NEXT = f"""
SELECT id FROM jobs_job WHERE pool_id = %s AND state IN {JOB.guard("assign")} AND turn IS NOT NULL
ORDER BY turn, id LIMIT {BATCH}"""

# An account's balance; none: it is not tracked, and can pay for anything.
_BALANCE = """
LEFT JOIN credits_account a ON a.ledger = 'resource:' || u.pool_id AND a.kind = 'upstream' AND a.owner_id = u.id
     AND u.tracked_since IS NOT NULL
LEFT JOIN credits_balance b ON b.account_id = a.id"""
_GIVES = "r.accepting AND NOT r.disabled AND r.state"

_PAYERS = f"""
SELECT u.id AS account_id, b.posted - b.held AS available FROM pool_upstreamaccount u {_BALANCE}
WHERE u.pool_id = %(pool)s AND EXISTS (
    SELECT FROM pool_pool WHERE id = %(pool)s AND accepting AND quarantined_at IS NULL) AND EXISTS (
    SELECT FROM pool_resource r WHERE r.account_id = u.id AND {_GIVES} IN {RESOURCE.guard("reserve")})"""

# What the richest account of each pool has for a new attempt; NULL: one of them can pay for anything.
_RICHEST = f"""
SELECT p.id AS pool_id, CASE WHEN bool_and(b.account_id IS NOT NULL) THEN max(b.posted - b.held) END AS most
FROM pool_pool p JOIN pool_upstreamaccount u ON u.pool_id = p.id {_BALANCE}
WHERE p.tracks_credits AND EXISTS (
    SELECT FROM pool_resource r WHERE r.account_id = u.id AND {_GIVES} {{state}})
GROUP BY p.id"""
_ANY = _RICHEST.format(state="<> 'offline'")
_FREE_NOW = _RICHEST.format(state=f"IN {RESOURCE.guard('reserve')}")

# The last entry of the partial index by pool and cost.
_DEAREST = """
SELECT cost FROM jobs_job WHERE pool_id = %s AND state = 'pending' AND unaffordable ORDER BY cost DESC LIMIT 1"""

_PARK = f"""
UPDATE jobs_job SET turn = NULL, unaffordable = true,
       due_at = clock_timestamp() + {LONGEST_WAIT} * (1 + random()) / 2, version = version + 1
WHERE id = ANY(%s) AND state = 'pending'
RETURNING id, pool_id, tenant_id, turn, due_at"""

# All that an account with a session to give can pay for; of those that wait for a busy one only a few, for their place in
# line: more would leave it again.
_AFFORDABLE = """
SELECT j.id FROM ({richest}) r CROSS JOIN LATERAL (
    SELECT id FROM jobs_job WHERE pool_id = r.pool_id AND state = 'pending' AND unaffordable
       AND (r.most IS NULL OR cost <= r.most) ORDER BY cost, id LIMIT {limit}) j"""
_AGAIN = f"""
{_AFFORDABLE.format(richest=_FREE_NOW, limit=MOST)} UNION {_AFFORDABLE.format(richest=_ANY, limit=BATCH)}"""


def payers(pool_id: int) -> list[Row]:
    """Accounts with a session to give: account_id, and what they have `available` (None: not tracked). Locks nothing."""
    return fetch(_PAYERS, {"pool": pool_id})


def free_sessions(pool_id: int, account_ids: Sequence[int]) -> list[Row]:
    """Locks free sessions of these accounts (id, account_id, fence), the least recently used first; skips locked ones."""
    return fetch(_FREE, {"pool": pool_id, "accounts": list(account_ids)})


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
    found = fetch(f"SELECT most FROM ({_ANY}) r WHERE pool_id = %s", [pool_id])
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
    return [row["id"] for row in fetch(_AGAIN)]
