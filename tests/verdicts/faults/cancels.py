"""The tenant wants it cancelled once the upstream has it."""

from collections.abc import Mapping
from typing import Any

from tests.verdicts.cells import ANSWER, CANCEL, MAX_RUNTIME, POLL, Fault, Row, cancelled, done, each

# What runs in mode sync has no name by which it could be cancelled; it is short, so that its answer comes in time.
LATENCY_MS = {"sync": 1_200, "poll": 5_000, "callback": 5_000}
CANCEL_OR_TOLD = f"{CANCEL}|{POLL}"  # the upstream calls back too, and is asked then


def wish(name: str, does: str, poll: Row, callback: Row, sim: Mapping[str, Any]) -> Fault:
    return Fault(
        name,
        does,
        sync=each(done(ANSWER)),
        poll=poll,
        callback=callback,
        sim=sim,
        latency_ms=LATENCY_MS,
        then="cancel",
    )


FAULTS = [
    wish(
        "cancelled",
        "The upstream ends it at once.",
        each(cancelled(CANCEL)),
        each(cancelled(CANCEL_OR_TOLD)),
        {},
    ),
    wish(
        "cancelled slowly",
        "The upstream takes the wish, and ends it a second later.",
        each(cancelled(POLL)),
        each(cancelled(POLL)),
        {"cancel_slow": "1s"},
    ),
    wish(
        "cancel ignored",
        "The upstream takes the wish, and goes on to the end.",
        each(done(POLL)),
        each(done(POLL)),
        {"cancel_ignored": True},
    ),
    wish(
        "answer of cancel lost",
        "The upstream ends it at once; the connection is closed before it says so.",
        each(cancelled(POLL)),
        each(cancelled(POLL)),
        {"lose_cancel": True},
    ),
    Fault(
        "cancelled, its name unknown",
        "The answer to the submit was lost, so nobody knows what to cancel.",
        sync=(cancelled(MAX_RUNTIME, effects=1), cancelled(CANCEL), cancelled(MAX_RUNTIME, effects=1)),
        poll=(cancelled(CANCEL), cancelled(CANCEL), cancelled(MAX_RUNTIME, effects=1)),
        callback=(cancelled(CANCEL_OR_TOLD), cancelled(CANCEL_OR_TOLD), done(POLL)),
        sim={"accept_then_drop": True},
        latency_ms={**LATENCY_MS, "sync": 3_500},
        then="cancel",
    ),
]
