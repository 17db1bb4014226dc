"""The work is taken and its answer is late, lost, spoilt or strange."""

from tests.verdicts.cells import ANSWER, FIND, POLL, PRICE, UNITS, Fault, done, each, failed, lost

# In mode poll an answer that is lost takes the reference with it; a callback brings it all the same.
LOST_ANSWER = (done(ANSWER), done(FIND), lost())
LOST_REFERENCE = (done(POLL), done(FIND), lost())
TOLD = each(done(POLL))
# Whichever comes first: the callback, upon which it is polled, or the first find.
TOLD_OR_FOUND = (done(POLL), done(f"{POLL}|{FIND}"), done(POLL))

FAULTS = [
    Fault(
        "nothing goes wrong",
        "It runs, and the answer says so.",
        sync=each(done(ANSWER)),
        poll=each(done(POLL)),
        callback=TOLD,
    ),
    Fault(
        "slower than our patience",
        "It takes longer than we wait for the answer, and less than max_runtime.",
        sync=LOST_ANSWER,
        poll=each(done(POLL)),
        callback=TOLD,
        sim={"finish_late": "3s"},
    ),
    Fault(
        "connection closed unanswered",
        "It is executed; the connection is closed before the answer.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"accept_then_drop": True},
    ),
    Fault(
        "answer cut",
        "It is executed; the connection breaks in the middle of the answer.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"cut_body": True},
    ),
    Fault(
        "never answered",
        "It is executed; the call hangs until we give up.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"hang": True},
    ),
    Fault(
        "unreadable answer",
        "It is executed; the answer is complete, and no JSON.",
        sync=(done(ANSWER), done(FIND), lost(ANSWER)),
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"unreadable_body": True},
    ),
    Fault(
        "error in a fine answer",
        "It fails, unbilled; the answer has status 200 and an error in its body.",
        sync=(lost(effects=0), failed("error_body", FIND), lost(ANSWER, effects=0)),
        poll=each(failed("error_body", POLL)),
        callback=each(failed("error_body", POLL)),
        sim={"error_body": True},
    ),
    Fault(
        "unknown word",
        "It is executed; its status in the end is a word that no expression knows.",
        sync=(lost(), lost(), lost(ANSWER)),
        poll=each(lost()),
        callback=each(lost()),
        sim={"status_word": "COMPLETE_WITH_WARNINGS"},
    ),
    Fault(
        "no name for the work",
        "It is executed; the answer holds an empty reference.",
        sync=None,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"empty_id": True},
    ),
    Fault(
        "repeat answered 409",
        "The first answer is lost; a repeat of the key is answered 409 with the name of the work.",
        sync=(lost(), done(FIND), lost()),
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"accept_then_drop": True, "exists": True},
    ),
    Fault(
        "partial result",
        "Half of it is done, and billed.",
        sync=each(done(ANSWER, UNITS // 2)),
        poll=each(done(POLL, UNITS // 2)),
        callback=each(done(POLL, UNITS // 2)),
        sim={"partial": 0.5},
    ),
    *(
        Fault(
            f"usage: {name}",
            f"It is executed; what it says it used is {what}.",
            sync=each(done(ANSWER, PRICE)),
            poll=each(done(POLL, PRICE)),
            callback=each(done(POLL, PRICE)),
            sim={"bad_usage": usage},
        )
        for name, what, usage in (
            ("negative", "less than nothing", -5),
            ("none", "left out", None),
            ("no number", "a text", "NaN"),
            ("above the hold", "two and a half times what was held", 25),
            ("absurd", "beyond all belief", 1e12),
        )
    ),
]
