"""Questions to the sessions, and writing what an operator wants of them. Sets, locked in id order."""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

_LOCKED = "WITH locked AS (SELECT id FROM pool_resource WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE)"


def lock(resource_ids: Sequence[int]) -> None:
    """Locks the sessions in id order."""
    fetch("SELECT id FROM pool_resource WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [list(resource_ids)])


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
    """Marks the sessions to be offline as soon as nothing runs on them. Returns how many were not marked yet."""
    return len(
        fetch(
            f"""{_LOCKED}
            UPDATE pool_resource r SET disabled = true, note = %(note)s
            FROM locked l WHERE r.id = l.id AND NOT r.disabled RETURNING r.id""",
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
    """Takes back what was wanted of the sessions: they accept again, as many as their account has.

    Rows are those that changed, with what their machine carries and their state.
    """
    return fetch(
        f"""{_LOCKED}
        UPDATE pool_resource r SET accepting = r.number <= a.sessions, disabled = false, rest_until = NULL, note = ''
        FROM locked l, pool_upstreamaccount a
        WHERE r.id = l.id AND a.id = r.account_id
          AND (r.disabled OR r.rest_until IS NOT NULL OR r.accepting <> (r.number <= a.sessions))
        RETURNING r.id, r.pool_id, r.job_id, r.fence, r.available_at, r.disabled, r.rest_until, r.state""",
        {"ids": list(resource_ids)},
    )


def rest_on(resource_ids: Sequence[int]) -> None:
    """Sessions that rest already do so until their quarantine ends; a later end stays."""
    fetch(
        f"""{_LOCKED}
        UPDATE pool_resource r SET available_at = r.rest_until, reason = r.note
        FROM locked l WHERE r.id = l.id AND r.state = 'cooldown' AND r.available_at < r.rest_until""",
        {"ids": list(resource_ids)},
    )
