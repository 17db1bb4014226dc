"""Something is wrong with the first account, or everybody is refused for a while."""

from collections.abc import Mapping
from typing import Any

from tests.verdicts.cells import REFUSAL, Fault, done, each
from tests.verdicts.faults.answers import LOST_ANSWER, LOST_REFERENCE, TOLD, TOLD_OR_FOUND


def elsewhere(name: str, does: str, first: Mapping[str, Any]) -> Fault:
    """The job goes to the second account."""
    went = each(done(REFUSAL))
    return Fault(name, does, sync=went, poll=went, callback=went, first=first)


FAULTS = [
    elsewhere("nobody listens", "The first account's address refuses connections.", {"unreachable": True}),
    elsewhere("account banned", "The first account gets 403.", {"fault": {"ban": True}}),
    elsewhere("account without credits", "The first account gets 402.", {"account": {"balance": 0}}),
    elsewhere(
        "stranger in the session: refused",
        "Somebody else uses the first account's session; going over the limit is answered 429.",
        {"fault": {"oob": 1}},
    ),
    elsewhere(
        "stranger in the session: banned",
        "The same; going over the limit bans the account, with 403.",
        {"fault": {"oob": 1, "over_limit": "ban"}},
    ),
    Fault(
        "stranger in the session: queued",
        "The same; going over the limit waits, until the stranger leaves. That takes longer than we wait.",
        sync=LOST_ANSWER,
        poll=TOLD,
        callback=TOLD,
        first={"fault": {"oob": 1, "over_limit": "queue"}},
        then="leave",
        then_seconds=2.2,
    ),
    Fault(
        "flood before",
        "The upstream answers 429 to everybody for two seconds, from before the job comes.",
        sync=each(done(REFUSAL)),
        poll=each(done(REFUSAL)),
        callback=each(done(REFUSAL)),
        flooded_seconds=2,
    ),
    Fault(
        "flood after",
        "It is executed and never answered; then the upstream answers 429 to everybody, beyond our patience.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"hang": True},
        then="flood",
    ),
]
