"""Late completions: a success that surfaced after its run had ended without one is our loss, and is told."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from credits import ledger
from credits.pricing import short_text
from jobs import closing, journal
from jobs.alone import row_by_row
from jobs.queries import endings, late
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

LOOK_AGAIN_SECONDS = 60.0  # while its run goes on


@row_by_row(0, late.postpone_job)
def book(job_ids: Sequence[UUID]) -> int:
    """The state stays: what late successes of ended runs would have cost goes from loss to revenue. How many were booked.

    Nothing is booked where the run has its success, or nothing was held. Locks jobs in id order, then what is remembered
    of them; of the ledger nothing. A second caller waits at the job and finds it decided.
    """
    with transaction.atomic():
        endings.lock(job_ids)
        cases = late.undecided(job_ids)
        # Its hold stands open as long as a run goes on.
        going_on = [case["late_id"] for case in cases if case["status"] == "open"]
        late.postpone(going_on, LOOK_AGAIN_SECONDS)
        return sum(_draw(case) for case in cases if case["late_id"] not in going_on)


def _draw(case: Row) -> int:
    why = _why_not(case)
    booked = 0 if why else ledger.book_late_completion(case["id"], case["run"], closing.charge(case)[0])
    crashpoint("book_late.booked", booked)
    late.decided(case["late_id"], booked, why or ("" if booked else "it would have cost nothing"))
    crashpoint("book_late.decided")
    if booked:
        told = f"late completion of run {case['run']}: {short_text(booked)} credits are our loss"
        endings.flag(case["id"], told)
        journal.surfaced(case, f"{short_text(booked)} credits of run {case['run']} are our loss")
    return int(booked > 0)


def _why_not(case: Row) -> str:
    if case["succeeded"]:
        return "the run has its success"
    if not case["held"]:
        return "nothing was held"
    return "" if case["status"] == "released" else f"its hold is {case['status']}"
