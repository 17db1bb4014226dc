"""What an operator wants of sessions, and letting go of one whose job is done. One transaction each.

What runs is never touched: a drained, disabled or quarantined session ends its job first. All lock sessions in id order
and nothing after them; a second caller waits there and changes what is left to change.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from pool import queries
from pool.states import RESOURCE
from statemachine.machine import Moved

LONGEST_QUARANTINE_SECONDS = 30 * 24 * 3600.0
_STILL_WANTED = "CASE WHEN t.rest_until > clock_timestamp() THEN t.rest_until END"


def drain(resource_ids: Sequence[int], note: str) -> int:
    """No arrow: nothing new begins on these sessions; what runs on them ends. Returns how many accepted until now.

    The claim tests it on the row it locks: one that was there first has begun its job, a later one passes it over.
    """
    return queries.drain(resource_ids, note)


def enable(resource_ids: Sequence[int]) -> int:
    """OFFLINE, COOLDOWN → AVAILABLE: drained, disabled and quarantined sessions take jobs again. Returns how many changed.

    A rest that outlasts the quarantine, between two jobs or asked for by the upstream, is not cut short. Sessions beyond
    those that the account has stay closed.
    """
    with transaction.atomic():
        queries.lock(resource_ids)
        back = {"available_at": "NULL", "reason": "''"}
        moved = RESOURCE.take("enable", _rows(resource_ids), columns=back)
        moved += RESOURCE.take(
            "release", _rows(resource_ids), columns=back, where="t.available_at = t.rest_until", cause="enabled"
        )
        lifted = queries.lift(resource_ids)
        # Drained ones took no arrow, but can be given to the next job like those that did.
        told = {session.id for session in moved}
        RESOURCE.announce("enable", [row for row in lifted if row["state"] == "available" and row["id"] not in told])
        return len(lifted)


def disable(resource_ids: Sequence[int], note: str) -> int:
    """AVAILABLE, COOLDOWN → OFFLINE at once; one that runs goes offline when its job has ended. Returns how many changed.

    A claim at the same time has begun its job, or finds the session offline.
    """
    with transaction.atomic():
        changed = queries.want_offline(resource_ids, note)
        _take_out(resource_ids)
        return changed


def quarantine(resource_ids: Sequence[int], seconds: float, note: str) -> int:
    """AVAILABLE → COOLDOWN until a time, never shortened; one that runs rests when its job has ended. Returns how many.

    A claim at the same time has begun its job, or finds the session resting. Raises ValueError for a time that is none.
    """
    if not 0 < seconds <= LONGEST_QUARANTINE_SECONDS:
        raise ValueError(f"a quarantine lasts up to {LONGEST_QUARANTINE_SECONDS:.0f} s, not {seconds}")
    with transaction.atomic():
        changed = queries.want_rest(resource_ids, seconds, note)
        _rest(resource_ids)
        return changed


def let_go(verb: str, sessions: Sequence[Mapping[str, Any]], rest_ms: int = 0) -> list[Moved]:
    """RESERVED, BUSY → AVAILABLE | COOLDOWN (`verb`: unreserve, free, cool): each is `{id, fence}`; then what an operator
    wanted of it meanwhile. One whose fence is gone stays. Locks the sessions.
    """
    rest = {"available_at": f"GREATEST({_after(rest_ms)}, t.rest_until)"} if rest_ms else {}
    moved = RESOURCE.take(verb, sessions, match=["fence"], columns={"rest_until": _STILL_WANTED, **rest})
    if wanted := [session.id for session in moved if session.row["disabled"]]:
        _take_out(wanted)
    if wanted := [session.id for session in moved if session.row["rest_until"] and not session.row["disabled"]]:
        _rest(wanted)
    return moved


def release(resource_ids: Sequence[int]) -> int:
    """COOLDOWN → AVAILABLE: its rest is over. Locks the sessions; a second caller finds them available."""
    columns = {"available_at": "NULL", "reason": "''", "rest_until": _STILL_WANTED}
    return len(
        RESOURCE.take("release", _rows(resource_ids), columns=columns, where="t.available_at <= clock_timestamp()")
    )


def _after(rest_ms: int) -> str:
    """Longer rests by the second: each text is a statement to be prepared, and an HTTP date differs every time."""
    whole = rest_ms if rest_ms < 1_000 else -(-rest_ms // 1_000) * 1_000
    return f"clock_timestamp() + interval '{whole} milliseconds'"


def _take_out(resource_ids: Sequence[int]) -> None:
    RESOURCE.take(
        "disable",
        _rows(resource_ids),
        columns={"available_at": "NULL", "reason": "t.note"},
        where="t.disabled",
        cause="disabled",
    )


def _rest(resource_ids: Sequence[int]) -> None:
    """Those available begin their quarantine; those that rest already rest on until its end."""
    RESOURCE.take(
        "quarantine",
        _rows(resource_ids),
        columns={"available_at": "t.rest_until", "reason": "t.note"},
        where="t.rest_until > clock_timestamp()",
    )
    queries.rest_on(resource_ids)


def _rows(resource_ids: Sequence[int]) -> list[dict[str, Any]]:
    return [{"id": resource_id} for resource_id in sorted(set(resource_ids))]
