"""What an ended attempt means for its job: a pure decision, no database.

Did it happen? decides: proven success completes; the tenant's own fault fails at once; what was not executed, or was
executed and failed, is tried again while tries are left; an unknown outcome follows the type's delivery policy.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.states import FAILED, NOT_EXECUTED, PROVEN
from upstream.result_files import UNAVAILABLE

DEFAULT_RETRY: Mapping[str, Any] = {
    "attempts": 3,
    "first_ms": 1000,
    "factor": 2,
    "max_ms": 300_000,
    "within_ms": 86_400_000,
}
CRASH_BUDGET = 3
BUSY_PAUSE_MS = 1000
GROWTH = 0.1  # of the time since the first start, so that a job that is refused for hours asks ever more seldom
OPERATOR = "operator"  # the error class of an attempt of which an operator said that nobody will find out
# The error class of what speaks of our account though the account was not refused: of a job that is at fault, and of
# what could not be asked for.
OF_ACCOUNT = "account"
OF_ACCOUNTS = ("auth", OF_ACCOUNT)  # what the upstream says of our accounts is not its tenants' to read
UPSTREAM_REFUSED = "upstream_refused"
REFUSED_TEXT = "the upstream refused the account that the job ran with"
UNREADABLE = "credential"  # the error code where a stored credential cannot be opened here: not the account's fault
# What tenants are told of errors that are ours alone: the whole text, which names hosts, expressions or accounts, is for
# operators, at the attempt.
TOLD: Mapping[str, str] = {
    "result_unavailable": "the work was done, but its result could not be fetched from where the upstream left it",
    "mapping_error": "the call could not be made of this job, or its answer could not be read",
    "adapter_missing": "the call could not be made where the job was taken up",
}
NEVER_SENT = ("worker_stopped", "lease_lost")  # given up on our side before anything was sent: not the job's try


@dataclass(frozen=True)
class Decision:
    """The arrow to take, with its reason; for `retry` whether the try counts and how long to wait (milliseconds)."""

    verb: str
    code: str = ""
    message: str = ""
    retryable: bool = False
    counted: bool = True
    pause_ms: int = 0


def decide(case: Mapping[str, Any]) -> Decision:  # noqa: PLR0911  one return per row of the table
    """`case` is a row of `queries.endings.ended`. Returns complete, fail, retry or cancel_ended."""
    if case["verdict"] in PROVEN:
        return Decision("complete")
    if case["cancel_requested_at"] is not None:
        return Decision("cancel_ended", "cancelled", "cancelled on request")
    code, message = case["error_code"] or case["verdict"], case["error_message"]
    if case["error_class"] == OPERATOR:
        return Decision("fail", "outcome_unknown")
    if case["crashes"] >= CRASH_BUDGET:
        return Decision("fail", "crash_budget", f"its worker was lost {case['crashes']} times")
    if case["verdict"] == NOT_EXECUTED and case["error_class"] in ("rejected", OF_ACCOUNT):
        return Decision("fail", code or "rejected", message)
    if case["verdict"] == NOT_EXECUTED and code in NEVER_SENT:
        return Decision("retry", code, message, counted=False)
    if case["verdict"] == NOT_EXECUTED and case["error_class"] == "busy":
        code = "busy"
    if _is_nobodys_try(case, code):
        return Decision("retry", code, message, counted=False, pause_ms=_refused_pause_ms(case))
    if case["verdict"] != NOT_EXECUTED and case["delivery"] != "at_least_once":
        return Decision("fail", code if case["verdict"] == FAILED else "outcome_unknown", message)
    if (
        case["verdict"] == FAILED and code == UNAVAILABLE
    ):  # it was executed, and is paid for: its result is what cannot be had
        return Decision("fail", code, message)
    if case["tries"] + 1 >= case["max_attempts"]:
        return Decision("fail", code, message, retryable=True)
    return Decision("retry", code, message, pause_ms=pause_ms(case["retry"], case["tries"]))


def _is_nobodys_try(case: Mapping[str, Any], code: str) -> bool:
    """Refused before it ran, for what is not the job's: but not for ever, from then on it is a try like others."""
    # Busy: Retry-After rests the session, and the job takes the next one that is free. Auth: the account rests by now,
    # and the job takes the next session of another, see `pool.health`.
    is_ours = case["error_class"] == "busy" or (case["error_class"] == "auth" and code != UNREADABLE)
    within_ms = float({**DEFAULT_RETRY, **case["retry"]}["within_ms"])
    return case["verdict"] == NOT_EXECUTED and is_ours and _since_start_ms(case) < within_ms


def _refused_pause_ms(case: Mapping[str, Any]) -> int:
    """Not at the pace at which it was refused, in milliseconds."""
    retry = {**DEFAULT_RETRY, **case["retry"]}
    ceiling = max(BUSY_PAUSE_MS, min(float(retry["max_ms"]), _since_start_ms(case) * GROWTH))
    return int(random.uniform(0, ceiling))  # noqa: S311  spreads load, protects nothing


def _since_start_ms(case: Mapping[str, Any]) -> float:
    return float((case["now"] - case["started_at"]).total_seconds() * 1000)


def for_tenants(code: str, message: str, error_class: str) -> tuple[str, str]:
    """Code and text of an error as tenants read it: what speaks of our accounts, hosts or expressions is not in it."""
    if code in TOLD:
        return code, TOLD[code]
    if error_class in OF_ACCOUNTS:
        return (code if code == "outcome_unknown" else UPSTREAM_REFUSED), REFUSED_TEXT
    return code, message


def told(case: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """The error of the job as its tenant reads it: code, message, retryable."""
    error_class = case["error_class"] if decision.message == case["error_message"] else ""
    code, message = for_tenants(decision.code, decision.message, error_class)
    return {"code": code, "message": message, "retryable": decision.retryable}


def pause_ms(policy: Mapping[str, Any], tries: int) -> int:
    """The back-off after `tries` earlier tries: exponential, bounded, with full jitter, in milliseconds."""
    retry = {**DEFAULT_RETRY, **policy}
    ceiling = min(float(retry["max_ms"]), float(retry["first_ms"]) * float(retry["factor"]) ** min(tries, 60))
    return int(random.uniform(0, ceiling))  # noqa: S311  spreads load, protects nothing
