"""Open holds under review. Time alone releases none: the facts of the job's attempts decide, and where they say nothing
for long an operator is asked."""

import logging
from collections.abc import Sequence

from django.db import transaction
from prometheus_client import Counter

from credits import ledger, pricing
from credits import reviews as holds
from jobs import closing, journal, transitions
from jobs.outage import DATABASE_AWAY
from jobs.queries import endings
from jobs.queries import reviews as asked
from jobs.transitions import REVIEW_SECONDS
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

logger = logging.getLogger(__name__)
MOST_WALKS, MOST_ROUNDS = 10, 4  # of one review, which is bounded so: 50,000 holds passed, 2,000 looked at
AGAIN_SECONDS = 3600.0  # between two looks at a hold whose job lives
VERIFY_SECONDS = 24 * 3600.0  # an outcome that is unknown for so long is an operator's to decide
NEED_ATTENTION = (asked.STRANDED, asked.OUTCOME_UNKNOWN, asked.OVERRUNNING)

orphans = Counter(
    "berth_ledger_orphan_hold", "Holds that were open after their run had ended: a mistake in the code.", ["end"]
)


def review() -> int:
    """The state stays: holds open for an hour are looked at, and what their jobs' attempts say is done. How many were.

    Each look pushes the next one on, in a commit of its own, so that two reviewers share the work and one that dies is
    followed by another. What is done then locks as its verb does.
    """
    for _ in range(MOST_WALKS):
        if holds.walk(REVIEW_SECONDS) < holds.WALK:
            break
    looked = 0
    for _ in range(MOST_ROUNDS):
        due = holds.take_due(AGAIN_SECONDS)
        crashpoint("review.taken", due)
        _draw(due)
        looked += len(due)
        if len(due) < holds.DUE:
            break
    return looked


def _draw(due: Sequence[holds.DueHold]) -> None:
    """The table, row by row. A job that was never sent and lives needs nothing, one in doubt is verified by the sweep."""
    found = asked.facts([hold.hold_id for hold in due], VERIFY_SECONDS)
    for row in (row for row in found if row["fact"] == asked.ORPHANED):
        try:
            _close(row)
        except DATABASE_AWAY:
            raise
        except Exception:  # whatever is wrong with one, the others are looked at, and it is tried again
            logger.exception("hold %s of job %s was not closed", row["hold_id"], row["id"])
    if unfinished := [row["id"] for row in found if row["fact"] == asked.UNFINISHED]:
        transitions.finish(unfinished)
    _ask_operators(due, found)


def _ask_operators(due: Sequence[holds.DueHold], found: Sequence[Row]) -> None:
    """Raised once; taken back when the facts are others."""
    needing = {row["hold_id"]: row for row in found if row["fact"] in NEED_ATTENTION}
    with transaction.atomic():
        raised = holds.raise_attention({hold_id: row["fact"] for hold_id, row in needing.items()})
        crashpoint("review.raised", raised)
        for hold_id in raised:
            journal.needs_attention(needing[hold_id], needing[hold_id]["fact"])
        holds.calm([hold.hold_id for hold in due if hold.attention and hold.hold_id not in needing])


def _close(row: Row) -> None:
    """A hold whose run has ended, or never was: charged what its completed job was, else given back.

    Locks the job, then the balance and the hold. A second reviewer waits at the job and finds the hold closed.
    """
    with transaction.atomic():
        endings.lock([row["id"]])
        again = asked.facts([row["hold_id"]], VERIFY_SECONDS)
        if not again or again[0]["fact"] != asked.ORPHANED:
            return
        (row,) = again
        end = "charged" if row["state"] == "completed" and row["run"] == row["job_run"] else "given back"
        if end == "charged":
            _charge(row)
        else:
            ledger.release([(row["id"], row["run"])], "orphaned")
        crashpoint("review.closed")
        journal.orphaned(row, end)
        if row["state"] is not None:
            endings.flag(row["id"], f"the hold of run {row['run']} was left open; {end} by its review")
        transaction.on_commit(orphans.labels("settled" if end == "charged" else "released").inc, robust=True)


def _charge(row: Row) -> None:
    """What the job was told it was charged; where that is nothing, what its success costs."""
    case = asked.success(row["id"])
    if case is None:
        raise RuntimeError(f"job {row['id']} is completed and hold {row['hold_id']} of it open, but not in its run")
    amount = case["charged"] or (case["price"] if case["number"] is None else closing.charge(case)[0])
    for closed in ledger.settle([ledger.Closing(row["id"], row["run"], amount, case["overrun"])]):
        if closed.captured != case["charged"]:
            asked.charged(row["id"], closed.captured)
            logger.info("job %s is charged %s", row["id"], pricing.short_text(closed.captured))
