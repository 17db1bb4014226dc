"""What an operator wants of sessions, and letting go of one whose job is done. One transaction each.

What runs is never touched: a drained, disabled or quarantined session ends its job first. All lock sessions in id order
and nothing after them; those that may take a probe away or give one back the health of their pools before them. A second
caller waits there and changes what is left to change. What the upstream and the breaker want of sessions is decided in
`pool.health`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from pool.queries import health
from pool.queries import sessions as queries
from pool.states import RESOURCE
from statemachine.crashpoints import crashpoint
from statemachine.machine import Moved

LONGEST_QUARANTINE_SECONDS = 30 * 24 * 3600.0
_WANTED = queries.WANTED.format("t")
_STILL_WANTED = {
    name: f"CASE WHEN t.{name} > clock_timestamp() THEN t.{name} END"
    for name in ("rest_until", "asked_until", "broken_until")
}


def drain(resource_ids: Sequence[int], note: str) -> int:
    """No arrow: nothing new begins on these sessions; what runs on them ends. Returns how many accepted until now.

    The claim tests it on the row it locks: one that was there first has begun its job, a later one passes it over.
    """
    with transaction.atomic():
        pool_ids, resting = lock_with_breakers(queries.pools_of(resource_ids), resource_ids=resource_ids)
        changed = queries.drain(resource_ids, note)
        elect(pool_ids, resting)
        return changed


def enable(resource_ids: Sequence[int]) -> int:
    """OFFLINE, COOLDOWN → AVAILABLE: drained, disabled and quarantined sessions take jobs again. Returns how many changed.

    Whoever took them out, an operator, the breaker or a refusal: what was held against their accounts is forgotten. A rest
    between two jobs, or asked for by the upstream, is not cut short (see `end_rest`). Sessions beyond those that the
    account has stay closed.
    """
    with transaction.atomic():
        health.lock(queries.pools_of(resource_ids))
        queries.lock(resource_ids)
        health.forget(resource_ids)
        lifted = queries.lift(resource_ids)
        told = put_back(resource_ids, "enabled")
        # Drained ones took no arrow, but can be given to the next job like those that did.
        RESOURCE.announce("enable", [row for row in lifted if row["state"] == "available" and row["id"] not in told])
        return len(lifted)


def end_rest(resource_ids: Sequence[int]) -> int:
    """COOLDOWN → AVAILABLE: whoever asked for it, the upstream too, the rest is over now. Returns how many rested.

    Drained and disabled sessions stay so.
    """
    with transaction.atomic():
        queries.lock(resource_ids)
        changed = queries.forget_rests(resource_ids)
        rest_or_release(resource_ids, "rest ended")
        return changed


def disable(resource_ids: Sequence[int], note: str) -> int:
    """AVAILABLE, COOLDOWN → OFFLINE at once; one that runs goes offline when its job has ended. Returns how many changed.

    A claim at the same time has begun its job, or finds the session offline.
    """
    with transaction.atomic():
        pool_ids, resting = lock_with_breakers(queries.pools_of(resource_ids), resource_ids=resource_ids)
        changed = queries.want_offline(resource_ids, note)
        take_out(resource_ids)
        elect(pool_ids, resting)
        return changed


def quarantine(resource_ids: Sequence[int], seconds: float, note: str) -> int:
    """AVAILABLE → COOLDOWN until a time, never shortened; one that runs rests when its job has ended. Returns how many.

    A claim at the same time has begun its job, or finds the session resting. Raises ValueError for a time that is none.
    """
    if not 0 < seconds <= LONGEST_QUARANTINE_SECONDS:
        raise ValueError(f"a quarantine lasts up to {LONGEST_QUARANTINE_SECONDS:.0f} s, not {seconds}")
    with transaction.atomic():
        pool_ids, resting = lock_with_breakers(queries.pools_of(resource_ids), resource_ids=resource_ids)
        changed = queries.want_rest(resource_ids, seconds, note)
        rest_or_release(resource_ids)
        elect(pool_ids, resting)
        return changed


def replace_probes(pool_id: int) -> None:
    """COOLDOWN → AVAILABLE, by its time: where the probe of an open breaker may not run, another session is it.

    What the verbs that take a probe away do at once, for all that could not know: a probe that ran when it was drained, an
    account of which every session was at rest. Locks the health of the pool, then sessions; a second caller finds the probe.
    """
    with transaction.atomic():
        elect(*lock_with_breakers([pool_id]))


def lock_with_breakers(
    pool_ids: Sequence[int], account_ids: Sequence[int] = (), resource_ids: Sequence[int] = ()
) -> tuple[Sequence[int], list[int]]:
    """Locks the health of the pools by id, then these sessions, and all that rest by a breaker of the pools, in id order.

    The pools, and the ids of all these sessions but `resource_ids`: what `elect` asks for.
    """
    health.lock(pool_ids)
    return pool_ids, queries.lock_all_of([], [*health.open_in(pool_ids), *account_ids], resource_ids)


def elect(pool_ids: Sequence[int], resting: Sequence[int]) -> None:
    """COOLDOWN → AVAILABLE, by its time: another probe where it is needed; all is locked, see `lock_with_breakers`."""
    if health.elect(pool_ids):
        health.want(resting)
        crashpoint("elect.wanted")
        rest_or_release(resting)


def lock(resource_ids: Sequence[int]) -> None:
    """Locks the sessions in id order: before several verbs write them, in an order of their own."""
    queries.lock(resource_ids)


def let_go(verb: str, sessions: Sequence[Mapping[str, Any]], rest_ms: int = 0) -> list[Moved]:
    """RESERVED, BUSY → AVAILABLE | COOLDOWN (`verb`: unreserve, free, cool): each is `{id, fence}`; then what was wanted of
    it meanwhile. One whose fence is gone stays. Locks the sessions.
    """
    columns = {**_STILL_WANTED, "reason": f"CASE WHEN {_WANTED} > clock_timestamp() THEN t.reason ELSE '' END"}
    if rest_ms:
        rest = _after(rest_ms)
        columns |= {"asked_until": f"GREATEST({rest}, t.asked_until)", "available_at": f"GREATEST({rest}, {_WANTED})"}
    moved = RESOURCE.take(verb, sessions, match=["fence"], columns=columns)
    crashpoint("let_go.moved", moved)
    if wanted := [session.id for session in moved if session.row["disabled"]]:
        take_out(wanted)
    if wanted := [session.id for session in moved if not session.row["disabled"] and _is_to_rest(session, rest_ms)]:
        rest_or_release(wanted)
    return moved


def release(resource_ids: Sequence[int]) -> int:
    """COOLDOWN → AVAILABLE: its rest is over. Locks the sessions; a second caller finds them available."""
    columns = {"available_at": "NULL", "reason": "''", **_STILL_WANTED}
    return len(
        RESOURCE.take("release", _rows(resource_ids), columns=columns, where="t.available_at <= clock_timestamp()")
    )


def wake(resource_ids: Sequence[int]) -> None:
    """COOLDOWN → AVAILABLE: these (locked) sessions have work of before, which the caller puts on them in this transaction.
    What is wanted of them stays, and holds when that has ended.
    """
    RESOURCE.take("release", _rows(resource_ids), columns={"available_at": "NULL"}, cause="taken up")


def take_out(resource_ids: Sequence[int]) -> None:
    """AVAILABLE, COOLDOWN → OFFLINE: those of them (locked) that are to be offline."""
    RESOURCE.take(
        "disable",
        _rows(resource_ids),
        columns={"available_at": "NULL", "reason": "t.note"},
        where="t.disabled",
        cause="disabled",
    )


def put_back(resource_ids: Sequence[int], cause: str) -> set[int]:
    """OFFLINE → AVAILABLE, those of them (locked) that nobody wants offline any more; then the rest that is wanted of each.

    Ids of those that moved.
    """
    back = {"available_at": "NULL", "reason": "''"}
    moved = RESOURCE.take("enable", _rows(resource_ids), columns=back, where="NOT t.disabled", cause=cause)
    return {session.id for session in moved} | rest_or_release(resource_ids, cause)


def rest_or_release(resource_ids: Sequence[int], cause: str = "") -> set[int]:
    """AVAILABLE → COOLDOWN and COOLDOWN → AVAILABLE by what is wanted of these (locked) sessions now. Ids of those that
    were released.
    """
    RESOURCE.take(
        "quarantine",
        _rows(resource_ids),
        columns={
            "available_at": _WANTED,
            "reason": f"CASE WHEN t.rest_until = {_WANTED} THEN t.note ELSE t.reason END",
        },
        where=f"{_WANTED} > clock_timestamp()",
    )
    queries.rest_on(resource_ids)
    released = RESOURCE.take(
        "release",
        _rows(resource_ids),
        columns={"available_at": "NULL", "reason": "''", **_STILL_WANTED},
        where=f"COALESCE({_WANTED}, '-infinity') <= clock_timestamp()",
        cause=cause,
    )
    return {session.id for session in released}


def _is_to_rest(session: Moved, rest_ms: int) -> bool:
    """One that rests already does so until the latest of all; one that was free at once is to rest for another's sake."""
    return not rest_ms and any(session.row[name] for name in _STILL_WANTED)


def _after(rest_ms: int) -> str:
    """Longer rests by the second: each text is a statement to be prepared, and an HTTP date differs every time.

    One time in a statement, so that `available_at` and `asked_until` are the same.
    """
    whole = rest_ms if rest_ms < 1_000 else -(-rest_ms // 1_000) * 1_000
    return f"statement_timestamp() + interval '{whole} milliseconds'"


def _rows(resource_ids: Sequence[int]) -> list[dict[str, Any]]:
    return [{"id": resource_id} for resource_id in sorted(set(resource_ids))]
