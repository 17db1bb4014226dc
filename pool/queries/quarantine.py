"""Pools that are closed since a restore: their end, and what is told of it.

Not the rest that an operator gives to a session, nor that of a breaker: these are of single sessions, and cooldowns.
"""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

TOLD_DAYS = 30  # so long every answer of the API tells of a restore

# Of several, from the earliest that one went back to until the newest: each of them may have lost commits in between.
_LATELY = f"""
SELECT max(at) AS at, min(went_back_to) AS went_back_to FROM pool_restoration
WHERE at > clock_timestamp() - interval '{TOLD_DAYS} days' HAVING count(*) > 0"""
_OVER = "SELECT id FROM pool_pool WHERE quarantined_until <= clock_timestamp() ORDER BY id"
_IS_OVER = """
SELECT quarantined_until + make_interval(secs => %s) <= clock_timestamp() AS over FROM pool_pool WHERE id = %s"""
_END = """
UPDATE pool_pool SET quarantined_until = LEAST(quarantined_until, clock_timestamp()), quarantine_note = %s
WHERE id = %s AND quarantined_at IS NOT NULL RETURNING id"""


def lately() -> list[Row]:
    """The restores of the last 30 days as one row, if there were any: at (of the newest), went_back_to (the earliest that is
    known; None: none is).
    """
    return fetch(_LATELY)


def over() -> list[int]:
    """Pools whose quarantine is over by its time."""
    return [row["id"] for row in fetch(_OVER)]


def is_over(pool_id: int, since_seconds: float = 0.0) -> bool:
    """Whether the pool should have opened so long ago; False of one that is open."""
    return any(row["over"] for row in fetch(_IS_OVER, [since_seconds, pool_id]))


def end_now(pool_id: int, note: str) -> bool:
    """An operator knows that nothing runs: locks the pool's row, whose time is over; False when the pool is open."""
    return bool(fetch(_END, [note, pool_id]))


def close_sessions(pool_ids: Sequence[int] | None = None) -> None:
    """Every session (locked; of these pools) says by itself that it is given to nobody: a claim that waited for its row reads
    it there.
    """
    fetch(
        """UPDATE pool_resource SET quarantined = true
           WHERE NOT quarantined AND (%(pools)s::bigint[] IS NULL OR pool_id = ANY(%(pools)s::bigint[]))""",
        {"pools": pool_ids if pool_ids is None else list(pool_ids)},
    )


def lock_sessions(pool_id: int) -> None:
    """Locks the sessions of the pool by id."""
    fetch("SELECT id FROM pool_resource WHERE pool_id = %s ORDER BY id FOR NO KEY UPDATE", [pool_id])


def open_sessions(pool_id: int) -> None:
    """The (locked) sessions of the pool may be given to jobs again."""
    fetch("UPDATE pool_resource SET quarantined = false WHERE pool_id = %s AND quarantined", [pool_id])
