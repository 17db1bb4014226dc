"""Bugs that somebody could write, each as a patch of the product: the simulator must find every one of them.

A patch replaces a function, or a part of an SQL text that is looked up when it is run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from jobs import calls, closing, tasks, transitions, wakes
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.queries import attempts, endings, flights, missed
from jobs.states import JOB
from pool import transitions as sessions
from statemachine.machine import Machine, Moved
from upstream import http, loop, mapping

Patch = Callable[[Any, str, Any], None]


@dataclass(frozen=True)
class Bug:
    """`sow` is given a function that sets an attribute until the bug is taken away."""

    says: str
    sow: Callable[[Patch], None]


@contextmanager
def sown(name: str) -> Iterator[None]:
    """The product has this bug inside."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, attribute: str, value: Any) -> None:
        undo.append(
            (owner, attribute, owner.__dict__[attribute] if isinstance(owner, type) else getattr(owner, attribute))
        )
        setattr(owner, attribute, value)

    BUGS[name].sow(patch)
    try:
        yield
    finally:
        for owner, attribute, value in reversed(undo):
            setattr(owner, attribute, value)


def _text(owner: Any, attribute: str, old: str, new: str) -> Callable[[Patch], None]:
    def sow(patch: Patch) -> None:
        text = getattr(owner, attribute)
        if old not in text:
            raise LookupError(f"{attribute} has no {old!r} any more")
        patch(owner, attribute, text.replace(old, new))

    return sow


def _all(*sowing: Callable[[Patch], None]) -> Callable[[Patch], None]:
    def sow(patch: Patch) -> None:
        for each in sowing:
            each(patch)

    return sow


def _fence_removed(patch: Patch) -> None:
    for name in ("_END", "_GO_ON", "_DOUBT", "_CANCEL_ASKED"):
        _text(attempts, name, " AND a.fence = v.fence", "")(patch)
    _text(attempts, "_END", "a.resource_id, a.fence", "a.resource_id, v.fence")(
        patch
    )  # and it does not stand in the way
    take = sessions.RESOURCE.take
    patch(sessions.RESOURCE, "take", lambda verb, rows, **terms: take(verb, _bare(rows), **{**terms, "match": ()}))


def _bare(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "fence"} for row in rows]


def _freed_at_time_out(patch: Patch) -> None:
    told = mapping.no_answer
    patch(http.mapping, "no_answer", lambda why, repeat: replace(told(why, repeat), over=True))
    way = Finding.__dict__["ends"]
    patch(Finding, "ends", property(lambda self: way.fget(self) or (self.outcome.over and self.kind == "answer")))


def _unassign_anything(patch: Patch) -> None:
    arrow = JOB.arrows["unassign"]
    patch(JOB, "arrows", {**JOB.arrows, "unassign": replace(arrow, sources=("assigned", "processing"))})
    _text(attempts, "_ABANDON", f" AND phase = '{attempts.INTENDED}'", "")(patch)
    patch(missed, "jobs_to_unassign", _lapsed)
    take = sessions.RESOURCE.arrows["unreserve"]
    patch(
        sessions.RESOURCE,
        "arrows",
        {**sessions.RESOURCE.arrows, "unreserve": replace(take, sources=("reserved", "busy"))},
    )


def _lapsed() -> list[Any]:
    return missed._column(
        "SELECT job_id FROM jobs_attempt WHERE ended_at IS NULL AND lease_until <= clock_timestamp() ORDER BY job_id"
    )


def _published_before_commit(patch: Patch) -> None:
    def announce(self: Machine, verb: str, rows: Any) -> list[Moved]:
        moved = [Moved(row["id"], self.arrows[verb].target, row) for row in rows]
        if moved:
            self.announced.send_robust(sender=self.model, verb=verb, moved=moved)
        return moved

    patch(Machine, "announce", announce)


def _flag_cleared_late(patch: Patch) -> None:
    def assign(pool_id: int) -> None:
        if transitions.assign(pool_id) == transitions.BATCH:
            wakes.wake("assign", (pool_id,))
        wakes.awake("assign", (pool_id,))

    patch(tasks, "assign", assign)


def _counted_before_the_lock(patch: Patch) -> None:
    lock = transitions.ledger.lock_wallets

    def give(pool_id: int, tenant_ids: Any) -> int:
        rows = transitions.turns.line.give_turns(pool_id, tenant_ids)
        lock(tenant_ids)
        transitions.turns.announce("promote", rows)
        return len(rows)

    patch(transitions.ledger, "lock_wallets", lambda _: None)
    patch(transitions.turns, "give", give)


def _sent_before_commit(patch: Patch) -> None:
    def dispatch(job_ids: Any) -> None:
        leased_at = calls.time.monotonic()
        with transaction.atomic():
            calls.send(transitions.dispatch(job_ids, calls.holder()), leased_at)

    patch(calls, "dispatch", dispatch)


def _sent_again(patch: Patch) -> None:
    patch(Flight, "may_send_again", property(lambda self: self.row["sendings"] <= 3))


def _over_with_the_worker(patch: Patch) -> None:
    def worker_lost(flight: Flight) -> Finding:
        transitions.end([Finding(flight, replace(lost(flight).outcome, over=True, verdict="not_executed"))])
        return lost(flight)

    lost = Finding.worker_lost
    patch(Finding, "worker_lost", worker_lost)


def _never_fenced(patch: Patch) -> None:
    def start(self: Any, *args: Any, **kwargs: Any) -> bool:
        begun: bool = begin(self, *args, **kwargs)
        for entry in self._calls.values():
            entry.safe_until = float("inf")
        return begun

    begin = loop.CallLoop.start
    patch(loop.CallLoop, "start", start)


def _evidence_fenced(patch: Patch) -> None:
    def append(rows: Any) -> set[int]:
        fences = {
            row["id"]: row["fence"]
            for row in attempts.fetch(
                "SELECT id, fence FROM jobs_attempt WHERE ended_at IS NULL AND id = ANY(%s)",
                [[row["id"] for row in rows] or [0]],
            )
        }
        keep([row for row in rows if fences.get(row["id"]) == row["fence"]])
        return {row["id"] for row in rows}

    keep = attempts.append_evidence
    patch(attempts, "append_evidence", append)


def _cancelled_while_it_runs(patch: Patch) -> None:
    arrow = JOB.arrows["cancel"]
    patch(JOB, "arrows", {**JOB.arrows, "cancel": replace(arrow, sources=("pending", "assigned", "processing"))})


def _released_when_asked(patch: Patch) -> None:
    def request_cancel(job_id: Any) -> bool:
        asked = ask(job_id)
        closing.ledger.release([(job_id, 1)], "cancelled")
        return asked

    ask = closing.request_cancel
    patch(closing, "request_cancel", request_cancel)


def _retry_releases(patch: Patch) -> None:
    retry = closing._retry

    def release_and_retry(cases: Any) -> int:
        closing.ledger.release([(case["id"], case["run"]) for case, _ in cases], "retry")
        return retry(cases)

    patch(closing, "_retry", release_and_retry)


def _state_not_checked(patch: Patch) -> None:
    guard = Machine.guard
    every = "('pending', 'assigned', 'processing', 'completed', 'failed', 'cancelled')"
    patch(Machine, "guard", lambda self, verb: every if self is JOB else guard(self, verb))


BUGS: dict[str, Bug] = {
    "fence removed": Bug("what an earlier sending learned ends a later one", _fence_removed),
    "session freed at time-out": Bug("our time-out counts as the upstream's end", _freed_at_time_out),
    "sweep without state check": Bug("a lapsed lease is unassigned, sent or not", _unassign_anything),
    "publish before commit": Bug("wake-ups are sent inside of the transaction", _published_before_commit),
    "flag cleared late": Bug("the flag of a wake-up is cleared after the claim's snapshot", _flag_cleared_late),
    "count before lock": Bug("promotion counts before it has the tenant's balance", _counted_before_the_lock),
    "max_runtime ignored": Bug(
        "an unknown outcome is waited for a quarter of max_runtime",
        _all(
            _text(flights, "OVERDUE", "1000.0", "4000.0"),
            *(_text(attempts, name, "v.over_ms / 1000.0", "v.over_ms / 4000.0") for name in ("_GO_ON", "_DOUBT")),
        ),
    ),
    "sent before commit": Bug("the call goes out before its intent is committed", _sent_before_commit),
    "sent again": Bug("a call is sent again though its upstream does not deduplicate", _sent_again),
    "never asked": Bug(
        "an unknown outcome is only waited out, and repeated where that is allowed",
        lambda patch: patch(Flight, "way", property(lambda _: "wait")),
    ),
    "state not checked": Bug("a job is moved from whatever state it is in", _state_not_checked),
    "over with the worker": Bug("a lost worker's attempt counts as not executed", _over_with_the_worker),
    "late end overwrites": Bug(
        "what comes late overwrites how an attempt ended",
        _text(attempts, "_END", " AND a.ended_at IS NULL", ""),
    ),
    "crashes not counted": Bug(
        "losing a worker does not count", lambda patch: patch(endings, "count_crashes", lambda _: None)
    ),
    "self-fencing removed": Bug("a call goes on when its lease may have ended", _never_fenced),
    "evidence fenced": Bug("what a late writer learned is thrown away", _evidence_fenced),
    "cancelled while it runs": Bug("a cancel ends a job that the upstream is at", _cancelled_while_it_runs),
    "released when asked": Bug("asking for a cancel gives the hold back at once", _released_when_asked),
    "retry releases": Bug("a retry gives the hold back", _retry_releases),
}
