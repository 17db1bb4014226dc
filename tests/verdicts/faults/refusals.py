"""The work is refused, or fails: by status code, at once or in the end, once or always."""

from tests.verdicts.cells import ANSWER, FIND, MAX_RUNTIME, POLL, REFUSAL, Fault, done, each, failed, lost, refused
from tests.verdicts.faults.answers import LOST_ANSWER, LOST_REFERENCE, TOLD_OR_FOUND

NOT_TAKEN = failed("missing", FIND, ran=0)
ONCE = {"times": 1}


def rejected(code: int) -> Fault:
    return Fault(
        f"{code}",
        f"Refused with {code}, always: the job is at fault.",
        sync=each(refused()),
        poll=each(refused()),
        callback=each(refused()),
        sim={"fail": code},
    )


def passing(name: str, does: str, **sim: object) -> Fault:
    """What is not executed and may go better elsewhere, or later."""
    return Fault(name, does, sync=each(done(REFUSAL)), poll=each(done(REFUSAL)), callback=each(done(REFUSAL)), sim=sim)


FAULTS = [
    rejected(400),
    rejected(404),
    rejected(422),
    passing("401 once", "The first account's credential is refused.", fail=401, **ONCE),
    passing("403 once", "The first account is told that it may not.", fail=403, **ONCE),
    passing(
        "429 twice",
        "Too busy, with Retry-After: 1, at both accounts.",
        fail={"code": 429, "retry_after": 1},
        times=2,
    ),
    passing(
        "429 for an hour",
        "Too busy, with Retry-After: 3600, at the first account.",
        fail={"code": 429, "retry_after": 3600},
        **ONCE,
    ),
    passing("503 once", "Not available, once.", fail=503, **ONCE),
    Fault(
        "503",
        "Not available, always.",
        sync=each(refused()),
        poll=each(refused()),
        callback=each(refused()),
        sim={"fail": 503},
    ),
    Fault(
        "409",
        "Refused with a status that nothing is said of, always.",
        sync=(lost(ran=0), NOT_TAKEN, lost(ANSWER, ran=0)),
        poll=(lost(ran=0), NOT_TAKEN, lost(ran=0)),
        callback=(lost(ran=0), NOT_TAKEN, lost(ran=0)),
        sim={"fail": 409},
    ),
    Fault(
        "500 once",
        "An error of theirs before it began; nobody can know that it did not.",
        sync=(done(ANSWER), done(FIND), lost(ANSWER, ran=0)),
        poll=(done(POLL), done(FIND), lost(ran=0)),
        callback=(done(POLL), done(FIND), lost(ran=0)),
        sim={"fail": 500, **ONCE},
    ),
    Fault(
        "500",
        "The same, always.",
        sync=(lost(ran=0), NOT_TAKEN, lost(ANSWER, ran=0)),
        poll=(lost(ran=0), NOT_TAKEN, lost(ran=0)),
        callback=(lost(ran=0), NOT_TAKEN, lost(ran=0)),
        sim={"fail": 500},
    ),
    Fault(
        "502 once",
        "An error of a gateway, behind which it may run; it does not.",
        sync=(done(ANSWER), done(FIND), lost(ran=0)),
        poll=(done(POLL), done(FIND), lost(ran=0)),
        callback=(done(POLL), done(FIND), lost(ran=0)),
        sim={"fail": 502, **ONCE},
    ),
    Fault(
        "repeat refused",
        "It is executed and never answered; the first repeat of the key is refused with 503.",
        sync=LOST_ANSWER,
        poll=LOST_REFERENCE,
        callback=TOLD_OR_FOUND,
        sim={"hang": True},
        then="refuse",
    ),
    Fault(
        "runs and fails",
        "It is executed, fails in the end, and is not billed; in mode sync with status 500.",
        sync=(lost(effects=0), failed("500", FIND), lost(ANSWER, effects=0)),
        poll=each(failed("500", POLL)),
        callback=each(failed("500", POLL)),
        sim={"fail": {"code": 500, "late": True}},
    ),
    Fault(
        "runs, fails, is billed",
        "The same, and the provider bills it.",
        sync=(lost(), failed("500", FIND, effects=1), lost(ANSWER)),
        poll=each(failed("500", POLL, effects=1)),
        callback=each(failed("500", POLL, effects=1)),
        sim={"fail": {"code": 500, "billed": True}},
    ),
    Fault(
        "runs and is rejected",
        "It is executed, fails in the end, and is not billed; in mode sync with status 400.",
        sync=each(failed("400", REFUSAL)),
        poll=each(failed("400", POLL)),
        callback=each(failed("400", POLL)),
        sim={"fail": {"code": 400, "late": True}},
    ),
    Fault(
        "runs and fails once; repeats allowed",
        "As above with 500, the first time; the type delivers at least once.",
        sync=(
            done(MAX_RUNTIME, ran=2, effects=1),
            done(FIND, ran=2, effects=1),
            done(ANSWER, ran=2, effects=1),
        ),
        poll=each(done(POLL, ran=2, effects=1)),
        callback=each(done(POLL, ran=2, effects=1)),
        sim={"fail": {"code": 500, "late": True}, **ONCE},
        repeats=True,
    ),
    Fault(
        "closed unanswered once; repeats allowed",
        "It is executed, the connection is closed before the answer; the type delivers at least once.",
        sync=(done(ANSWER), done(FIND), done(MAX_RUNTIME, ran=2)),
        poll=(done(POLL), done(FIND), done(MAX_RUNTIME, ran=2)),
        callback=TOLD_OR_FOUND,
        sim={"accept_then_drop": True, **ONCE},
        repeats=True,
    ),
]
