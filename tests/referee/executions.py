"""U1, U2b, J7b and I7: each execution is of a dispatch that was meant, is not repeated blindly, keeps its session to its
end, and is not forgotten.
"""

import math
import re
from collections import Counter, defaultdict
from typing import Any

from tests.referee.evidence import PROVEN, Evidence, Line, Row, Rule, carried_out, job_of

KEY = re.compile(r"job\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.a[1-9][0-9]*")
RESULT_LOST = "result_unavailable"  # the work was done and said so, and its result could not be fetched
# Book and database are of one machine, but the book counts on from when the simulator began: the machine's time of day
# may be slewed meanwhile. A session is let go a round trip after the end at the earliest, an execution takes longer.
CLOCKS_APART_SECONDS = 0.05


def a_job_is_executed_once(evidence: Evidence) -> list[Any]:
    """Of each run of a job the upstream accepted another execution only where the one before had ended without effect and
    unbilled; a type whose jobs may repeat says so itself, and repeats only what failed or could not be found out (I7).
    """
    runs: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for execution in evidence.executions:
        if (attempt := evidence.attempts.get(execution["key"])) is not None:
            runs[attempt["job"], attempt["run"]].append(execution)
    wrong = []
    for (job, run), executions in runs.items():
        executions.sort(key=lambda execution: execution["accepted"])
        for number, later in enumerate(executions):
            before = [each for each in executions[:number] if not _may_be_followed(evidence, each, later)]
            wrong += [
                {"job": job, "run": run, "before": _short(evidence, each), "then": later["key"]} for each in before
            ]
    return wrong


def a_key_is_executed_once(evidence: Evidence) -> list[Any]:
    """No dispatch key was carried out twice, also not by an upstream that does not deduplicate."""
    counts = Counter((line["book"], line["key"]) for line in evidence.executions if line["key"] and carried_out(line))
    return [{"key": key, "times": times} for (_, key), times in counts.items() if times > 1]


def what_was_refused_was_not_executed(evidence: Evidence) -> list[Any]:
    """An attempt that says it was not executed was carried out by nobody."""
    return [
        _short(evidence, execution)
        for execution in evidence.executions
        if carried_out(execution)
        and execution["key"] in evidence.attempts
        and evidence.attempts[execution["key"]]["verdict"] == "not_executed"
    ]


def every_execution_is_of_a_dispatch_key(evidence: Evidence) -> list[Any]:
    """What the upstream executed names a dispatch key as we make them."""
    return [
        {"id": execution["id"], "key": execution["key"]}
        for execution in evidence.executions
        if KEY.fullmatch(execution["key"] or "") is None
    ]


def every_execution_has_its_attempt(evidence: Evidence) -> list[Any]:
    """What the upstream accepted from us under a dispatch key is an attempt that says it may have been sent (I7)."""
    wrong = []
    for execution in evidence.executions:
        attempt = evidence.attempts.get(execution["key"])
        if job_of(execution["key"]) and (attempt is None or attempt["called"] is None):
            wrong.append({"key": execution["key"], "id": execution["id"], "attempt": attempt and attempt["verdict"]})
    return wrong


def no_session_is_let_go_before_its_end(evidence: Evidence) -> list[Any]:
    """No attempt ended, and no session was let go by it, before its execution at the upstream had ended, but where an
    operator said so, or nobody knew what came of it and max_runtime had passed (P2).
    """
    wrong = []
    for execution in evidence.executions:
        attempt = evidence.attempts.get(execution["key"])
        if attempt is None or attempt["called"] is None or _declared_over(evidence, attempt):
            continue
        end = math.inf if execution["end"] is None else execution["end"]
        gone = min(attempt["ended"] or math.inf, evidence.let_go_after(attempt["session"], attempt["opened"]))
        if gone < end - CLOCKS_APART_SECONDS:
            early = f"{end - gone:.3f} s too early"
            wrong.append({"session": attempt["session"], "let go": gone, **_short(evidence, execution), "by": early})
    return wrong


def what_was_delivered_is_not_lost(evidence: Evidence) -> list[Any]:
    """The run of a job that the upstream did is completed, or was cancelled by wish, unless the outcome could not be asked
    for, was asked for in vain until max_runtime, or its result was gone; and a success that was told of in the end is
    remembered (J7).
    """
    return [
        {**_short(evidence, execution), "state": state, "why": why}
        for execution in evidence.executions
        if execution["outcome"] in ("done", "partial") and (attempt := evidence.attempts.get(execution["key"]))
        for state in [evidence.ends.get((attempt["job"], attempt["run"]), "")]
        if state in ("failed", "cancelled") and (why := _lost(evidence, attempt, state))
    ]


def _lost(evidence: Evidence, attempt: Row, state: str) -> str:
    """Why that end of its run is not excused; empty when it is."""
    run = attempt["job"], attempt["run"]
    if attempt["verdict"] in PROVEN:
        return "its success was known in time"
    if run in evidence.told_of_success and run not in evidence.late:
        return "a success that was told is forgotten"
    nobody_knew = attempt["verdict"] == "unknown" and (not _can_be_found(attempt) or _asked_in_vain(attempt))
    gone = attempt["verdict"] == "failed" and attempt["error_code"] == RESULT_LOST
    if nobody_knew or gone or attempt["id"] in evidence.said_by_operators:
        return ""
    if attempt["verdict"] != "unknown":
        return f"it is said to be {attempt['verdict']}"
    # What nobody wants any more is not sent again only to learn what came of it.
    return "" if state == "cancelled" and _was_wanted(evidence, attempt) else "nobody asked what came of it"


def _was_wanted(evidence: Evidence, attempt: Row) -> bool:
    """Whether its tenant wanted the job cancelled; of an earlier run nobody remembers."""
    job = evidence.jobs.get(attempt["job"])
    return job is None or job["run"] != attempt["run"] or job["cancel_requested_at"] is not None


def _may_be_followed(evidence: Evidence, before: Line, later: Line) -> bool:
    """Whether the upstream could be given this other execution of the same run after that one."""
    ended = before["end"] is not None and before["end"] <= later["accepted"]
    if ended and not carried_out(before):
        return True
    attempt = evidence.attempts[before["key"]]
    job = evidence.jobs.get(attempt["job"])
    if job is None or job["delivery"] != "at_least_once" or before["key"] == later["key"]:
        return False
    failed = attempt["verdict"] == "failed" and ended and before["outcome"] == "failed"
    return failed or (attempt["verdict"] == "unknown" and (not _can_be_found(attempt) or _asked_in_vain(attempt)))


def _can_be_found(attempt: Row) -> bool:
    """Whether its type says how to ask what came of it: by what the upstream calls it, by its key, or by sending it again."""
    ways = attempt["upstream"] or {}
    polls = ways.get("poll") and attempt["reference"]
    return bool(polls or ways.get("find") or (ways.get("submit") or {}).get("idempotent") is True)


def _asked_in_vain(attempt: Row) -> bool:
    """Whether it was asked for, and ended only as nobody answered: when its time was over, or no more was to be sent."""
    asked = attempt["asked_at"] is not None or attempt["sendings"] > 1
    return asked and (_waited_out(attempt) or attempt["sendings"] > 1)


def _waited_out(attempt: Row) -> bool:
    """Whether it ended, with nobody knowing what came of it, when the upstream had certainly ended."""
    if attempt["verdict"] != "unknown" or None in (attempt["max_runtime_ms"], attempt["called"], attempt["ended"]):
        return False
    return bool(attempt["ended"] >= attempt["called"] + attempt["max_runtime_ms"] / 1000)


def _declared_over(evidence: Evidence, attempt: Row) -> bool:
    return _waited_out(attempt) or attempt["id"] in evidence.said_by_operators


def _short(evidence: Evidence, execution: Line) -> dict[str, Any]:
    """An execution, and what its attempt says of it."""
    said = {name: execution[name] for name in ("id", "key", "accepted", "end", "outcome", "billed")}
    attempt = evidence.attempts.get(execution["key"]) or {}
    told = {name: attempt.get(name) for name in ("verdict", "error_code", "called", "ended", "sendings", "asked_at")}
    return {**said, **told}


RULES = (
    Rule("U1", a_job_is_executed_once),
    Rule("U1", a_key_is_executed_once),
    Rule("U1", what_was_refused_was_not_executed),
    Rule("U2b", no_session_is_let_go_before_its_end),
    Rule("J7b", what_was_delivered_is_not_lost),
    Rule("I7", every_execution_is_of_a_dispatch_key),
    Rule("I7", every_execution_has_its_attempt),
)
