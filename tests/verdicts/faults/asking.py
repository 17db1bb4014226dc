"""The work goes well; asking for it, or being told of it, does not."""

from collections.abc import Mapping
from typing import Any

from tests.verdicts.cells import ANSWER, FIND, POLL, Fault, Row, done, each, lost
from tests.verdicts.faults.answers import LOST_ANSWER, LOST_REFERENCE, TOLD, TOLD_OR_FOUND

FOUND_INSTEAD = (done(POLL), done(FIND), done(POLL))
ONLY_FOUND = (lost(), done(FIND), lost())


def polled(name: str, does: str, row: Row, **sim: Any) -> Fault:
    """What happens to polls, in the modes that have them."""
    return Fault(name, does, sync=None, poll=row, callback=row, sim=sim)


def told(name: str, does: str, sim: Mapping[str, Any]) -> Fault:
    """What happens to callbacks: the poll has the last word."""
    return Fault(name, does, sync=None, poll=None, callback=TOLD, sim=sim)


FAULTS = [
    polled("poll answered 404, twice", "The task is not to be seen at once.", FOUND_INSTEAD, poll_404=2),
    polled("poll answered 404, always", "The upstream has forgotten the task's name.", ONLY_FOUND, poll_404=1_000),
    polled("polls cut, twice", "The connections of two polls are closed unanswered.", FOUND_INSTEAD, lose_poll=2),
    polled("polls hang", "No poll is answered in time.", ONLY_FOUND, hang_poll="3s"),
    polled("polls slow", "Each poll takes a while.", each(done(POLL)), hang_poll="400ms"),
    polled("polls behind the times", "Two polls after the end still say that it runs.", each(done(POLL)), stale_poll=2),
    Fault(
        "find cut",
        "The answer to the submit is lost, and so is the first answer of find.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"accept_then_drop": True, "lose_find": 1},
    ),
    Fault(
        "find knows it late",
        "The answer to the submit is lost, and find does not know the key at once.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"accept_then_drop": True, "find_late": "1500ms"},
    ),
    Fault(
        "account banned meanwhile",
        "It is executed; from then on the account gets 403, whatever it asks.",
        sync=each(done(ANSWER)),
        poll=each(lost()),
        callback=each(lost()),
        latency_ms=1_500,
        then="ban",
    ),
    told("no callback", "Nothing is told.", {"no_callback": True}),
    told("callback late", "The end is told two seconds later.", {"late_callback": "2s"}),
    told("callback early", "The end is told before the answer to the submit.", {"early_callback": True}),
    told("callback five times", "The end is told five times.", {"dup_callback": 5}),
    told("callbacks out of order", "After the end it is told that it runs.", {"out_of_order": True}),
]
