"""Asking the upstream what became of a call, and asking it to stop. The state of the job stays; `learn` writes answers.

No transaction is open while the upstream is asked: a verb commits who asks, and the caller calls.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from jobs import inquiry, journal
from jobs.alone import row_by_row
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.queries import ask_budget, attempts, flights, postponing
from jobs.transitions import end
from pool import transitions as sessions
from statemachine.crashpoints import crashpoint

NEVER = datetime.min.replace(tzinfo=UTC)
CLOSED_MS = 10_000  # between looks at what is not sent before its pool opens, which an operator may bring forward
ASKED_AGAIN_MS = 1_000  # after its time-out, when whoever asked is lost


@row_by_row([], postponing.verify)
def verify(job_ids: Sequence[UUID], holder: str) -> list[Flight]:
    """PROCESSING stays PROCESSING: what became of these calls is asked for, or waited out.

    Accepted work is polled; what is unknown is found by its dispatch key, or the same attempt is sent again: same key,
    same session, new fence. The caller calls for what is returned. Where nothing of that is possible max_runtime has
    passed when it is due: the session is over, the outcome stays unknown. Nothing is sent again in a pool that is closed
    since a restore before its time is over: a job that only the lost commits knew may have the session.

    Locks attempts, passing over those that others have, then sessions by id, then accounts that have a budget of polls; a
    second caller finds nothing due: what was sent is leased, what is asked for or put off is due later. The pool is read
    and not locked: a restore waits for the attempts that are locked here, and whoever comes after it reads that it is closed.
    """
    with transaction.atomic():
        due = flights.doubted(job_ids)
        ways = {flight.attempt_id: flight.way for flight in due}  # as it stands before anything is written
        over = [flight for flight in due if _is_over(flight)]
        left = [flight for flight in due if flight not in over]
        again = [flight for flight in left if ways[flight.attempt_id] == "submit" and not _closed_ms(flight)]
        if over and again:  # some sessions are let go, others get a new fence
            sessions.lock([flight.resource_id for flight in over + again])
        end([Finding.waited_out(flight) for flight in over])
        begun = attempts.begin_again([flight.attempt_id for flight in again], holder, settings.LEASE_SECONDS)
        crashpoint("verify.fenced", begun)
        asked = _within_budget(
            [replace(f, action=way) for f in left if (way := ways[f.attempt_id]) in ("poll", "find")]
        )
        attempts.ask([{"id": f.attempt_id, "pause_ms": ms} for f in left if (ms := _closed_ms(f))])
        # Meant to be asked for, but by now nobody can (a policy changed, its workers died): then it is waited out.
        attempts.doubt([Finding.still_unknown(f).doubt() for f in left if ways[f.attempt_id] == "wait"])
        for flight in asked:
            if flight.waited_out and not flight.row["asked_since"]:
                journal.overdue(flight.row)
        sent = flights.opened([attempt["id"] for attempt in begun])  # by their new fences
        # An apply may have come in since it was decided: its key goes nowhere else.
        attempts.doubt([Finding.still_unknown(flight).doubt() for flight in sent if not flight.declared_as_called])
        return [flight for flight in sent if flight.declared_as_called] + asked


@row_by_row([], postponing.cancel)
def cancel_upstream(job_ids: Sequence[UUID]) -> list[Flight]:
    """PROCESSING stays PROCESSING: the upstream is to be asked to cancel what runs; the caller calls for what is returned.

    The session and the money follow what the upstream does, not the wish. One whose type declares no `cancel` runs on;
    one that has no reference yet, and needs it, waits for it. Locks attempts; a second caller finds nothing due.
    """
    with transaction.atomic():
        due = flights.to_cancel(job_ids)
        sent = [flight for flight in due if _may_be_cancelled(flight)]
        attempts.cancelling([_cancelling(flight, flight in sent) for flight in due])
        return [replace(flight, action="cancel") for flight in sent]


def _is_over(flight: Flight) -> bool:
    """Whether waiting longer is in vain: max_runtime has passed, and nobody can say more."""
    return flight.waited_out and (flight.way == "wait" or (flight.way != "submit" and flight.asked_in_vain))


def _closed_ms(flight: Flight) -> int:
    """So long what would be sent again is put off; 0: it is not."""
    ms = (flight.row["closed_ms"] or 0) if flight.way == "submit" else 0
    return min(math.ceil(ms), CLOSED_MS) if ms > 0 else 0


def _within_budget(wanted: Sequence[Flight]) -> list[Flight]:
    """Those that may be asked for now; they are not due again before whoever asks has given up. The others come later."""
    # Who was asked for longest ago goes first, so that a budget which is too small is shared.
    longest = sorted(filter(_counts, wanted), key=lambda flight: flight.row["asked_at"] or NEVER)
    rest_ms = ask_budget.spend([(flight.attempt_id, flight.row["account_id"]) for flight in longest])
    asked = [flight for flight in wanted if not rest_ms.get(flight.attempt_id)]
    rows = [{"id": f.attempt_id, "pause_ms": f.ways.timeout_ms + ASKED_AGAIN_MS} for f in asked]
    attempts.ask(rows + [{"id": attempt_id, "pause_ms": math.ceil(ms)} for attempt_id, ms in rest_ms.items() if ms])
    return asked


def _counts(flight: Flight) -> bool:
    """Whether its account has a budget, or was told to ask less."""
    return bool(flight.upstream.get("poll_rate")) or (flight.row["asks_rest_ms"] or 0) > 0


def _may_be_cancelled(flight: Flight) -> bool:
    known = bool(flight.row["reference"]) or not flight.ways.cancel_needs_reference
    return flight.ways.cancels and known and flight.row["cancels"] < inquiry.MOST_CANCELS


def _cancelling(flight: Flight, sent: bool) -> dict[str, Any]:
    pause: int | None
    if sent:
        pause = inquiry.cancel_pause_ms(flight.row["cancels"] + 1)
    else:
        # Declared otherwise only by now, it may be put right.
        waits = inquiry.WAIT_FOR_REFERENCE_MS if flight.ways.cancels else inquiry.LONGEST_PAUSE_MS
        may = flight.ways.cancels or not flight.declared_as_called
        pause = waits if may and flight.row["cancels"] < inquiry.MOST_CANCELS else None
    return {"id": flight.attempt_id, "sent": sent, "pause_ms": pause}
