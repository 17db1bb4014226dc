"""Questions to the sessions, and writing what is wanted of them. Sets, locked in id order.

Three may want a session to rest, each in a column of its own, so that who takes his word back takes back nobody else's:
an operator (`rest_until`), the upstream or its reuse gap (`asked_until`), the breaker (`broken_until`). While it rests,
`available_at` is the latest of them.
"""

from collections.abc import Sequence
from datetime import datetime

from statemachine.sql import Row, fetch

WANTED = "GREATEST({0}.rest_until, {0}.asked_until, {0}.broken_until)"
_LOCKED = "WITH locked AS (SELECT id FROM pool_resource WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE)"


def lock(resource_ids: Sequence[int]) -> None:
    """Locks the sessions in id order."""
    fetch("SELECT id FROM pool_resource WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [list(resource_ids)])


def lock_all_of(pool_ids: Sequence[int], account_ids: Sequence[int], resource_ids: Sequence[int]) -> list[int]:
    """Locks these sessions and all of the pools and accounts, in id order in one statement; ids of those of the latter."""
    rows = fetch(
        """SELECT r.id, r.pool_id = ANY(%(pools)s) OR r.account_id = ANY(%(accounts)s) AS whole FROM pool_resource r
           WHERE r.pool_id = ANY(%(pools)s) OR r.account_id = ANY(%(accounts)s) OR r.id = ANY(%(ids)s)
           ORDER BY r.id FOR NO KEY UPDATE""",
        {"pools": list(pool_ids), "accounts": list(account_ids), "ids": list(resource_ids)},
    )
    return [row["id"] for row in rows if row["whole"]]


def pools_of(resource_ids: Sequence[int]) -> list[int]:
    """The pools that these sessions are of."""
    rows = fetch("SELECT DISTINCT pool_id FROM pool_resource WHERE id = ANY(%s) ORDER BY 1", [list(resource_ids)])
    return [row["pool_id"] for row in rows]


def drain(resource_ids: Sequence[int], note: str) -> int:
    """Closes the sessions to new jobs. Returns how many accepted until now."""
    return len(
        fetch(
            f"""{_LOCKED}
            UPDATE pool_resource r SET accepting = false, note = %(note)s
            FROM locked l WHERE r.id = l.id AND r.accepting RETURNING r.id""",
            {"ids": list(resource_ids), "note": note},
        )
    )


def want_offline(resource_ids: Sequence[int], note: str) -> int:
    """Marks the sessions to be offline as soon as nothing runs on them. Returns how many were not marked yet.

    Those that the upstream refused are an operator's from now on, and a new credential does not put them back.
    """
    return len(
        fetch(
            f"""{_LOCKED}
            UPDATE pool_resource r SET disabled = true, refused = false, note = %(note)s
            FROM locked l WHERE r.id = l.id AND (NOT r.disabled OR r.refused) RETURNING r.id""",
            {"ids": list(resource_ids), "note": note},
        )
    )


def want_rest(resource_ids: Sequence[int], seconds: float, note: str) -> int:
    """Marks the sessions to rest at least so long from now; a longer rest stays. Returns how many rest longer now.

    One that is to be offline anyway keeps its note. A second sending of one wish, a moment later, is not a longer one.
    """
    return len(
        fetch(
            f"""{_LOCKED}
            UPDATE pool_resource r SET rest_until = clock_timestamp() + make_interval(secs => %(seconds)s),
                   note = %(note)s
            FROM locked l WHERE r.id = l.id AND NOT r.disabled
              AND COALESCE(r.rest_until, '-infinity') < clock_timestamp() + make_interval(secs => %(seconds)s - 10)
            RETURNING r.id""",
            {"ids": list(resource_ids), "seconds": seconds, "note": note},
        )
    )


def lift(resource_ids: Sequence[int]) -> list[Row]:
    """Takes back what operator and breaker wanted of the sessions: they accept again, as many as their account has.

    Rows are those that changed, with what their machine carries and their state.
    """
    return fetch(
        f"""{_LOCKED}
        UPDATE pool_resource r SET accepting = r.number <= a.sessions, disabled = false, refused = false,
               rest_until = NULL, broken_until = NULL, note = ''
        FROM locked l, pool_upstreamaccount a
        WHERE r.id = l.id AND a.id = r.account_id
          AND (r.disabled OR r.rest_until IS NOT NULL OR r.broken_until IS NOT NULL
               OR r.accepting <> (r.number <= a.sessions))
        RETURNING r.id, r.pool_id, r.job_id, r.fence, r.available_at, r.disabled, r.rest_until, r.asked_until,
                  r.broken_until, r.state""",
        {"ids": list(resource_ids)},
    )


def forget_rests(resource_ids: Sequence[int]) -> int:
    """Nobody wants these (locked) sessions to rest any more. Returns how many somebody wanted to."""
    rows = fetch(
        f"""UPDATE pool_resource r SET rest_until = NULL, asked_until = NULL, broken_until = NULL,
                   note = CASE WHEN r.disabled OR NOT r.accepting THEN r.note ELSE '' END
            WHERE r.id = ANY(%s) AND ({WANTED.format("r")} IS NOT NULL OR r.state = 'cooldown') RETURNING r.id""",
        [list(resource_ids)],
    )
    return len(rows)


def rest_on(resource_ids: Sequence[int]) -> None:
    """Sessions that rest already do so until the latest that is wanted of them: later, or earlier than it was."""
    wanted = WANTED.format("r")
    fetch(
        f"""{_LOCKED}
        UPDATE pool_resource r SET available_at = {wanted},
               reason = CASE WHEN r.rest_until = {wanted} THEN r.note ELSE r.reason END
        FROM locked l WHERE r.id = l.id AND r.state = 'cooldown' AND r.available_at <> {wanted}""",
        {"ids": list(resource_ids)},
    )


def refused_since(account_id: int) -> datetime | None:
    """When the first of the account's sessions went offline that its upstream refused; None: none has yet, all run."""
    (row,) = fetch(
        """SELECT min(m.at) AS since FROM pool_resource r CROSS JOIN LATERAL (
               SELECT at FROM pool_resourcemove WHERE subject_id = r.id ORDER BY id DESC LIMIT 1) m
           WHERE r.account_id = %s AND r.refused AND r.state = 'offline'""",
        [account_id],
    )
    since: datetime | None = row["since"]
    return since
