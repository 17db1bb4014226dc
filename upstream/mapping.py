"""Did it happen? From an answer, or from none, to an Outcome: by the type's expressions, else by the status.

Two questions are decided apart. Is the session over? Any complete answer but 502 and 504 says so. Was it executed?
A refusal means no on a first sending only; what is unclear is unknown, and an unreadable answer is never a success.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal
from urllib.parse import quote

from upstream.answer import Answer, retry_after_ms
from upstream.calls import Call, ErrorClass, Outcome, Verdict
from upstream.expressions import Expression, ExpressionError, Scope
from upstream.spec import Submit

MAX_ERROR_LENGTH: Final = 300
MAX_CODE_LENGTH: Final = 50  # what an attempt keeps of it
MAX_UNITS: Final = 1e15
REJECTED_STATUSES: Final = frozenset({400, 404, 422})
# The account's fault, not the job's: its credential is refused, or it has no credits left at its provider.
AUTH_STATUSES: Final = frozenset({401, 402, 403})
BUSY_STATUS: Final = 429
UNAVAILABLE_STATUS: Final = 503
# Given by something between us and the upstream, which may still be working.
GATEWAY_STATUSES: Final = frozenset({502, 504})

NoAnswer = Literal["connect_failed", "timeout", "cut", "unreadable_answer", "answer_too_large"]
_NO_ANSWER: Final[dict[NoAnswer, str]] = {
    "connect_failed": "the upstream could not be reached",
    "timeout": "no answer in time",
    "cut": "the connection was cut before the answer was complete",
    "unreadable_answer": "what came back is not HTTP",
    "answer_too_large": "the answer is larger than is read",
}


def read_answer(submit: Submit, call: Call, scope: Scope, answer: Answer, repeat: bool) -> Outcome:
    """The Outcome of a complete answer. `repeat`: an earlier sending of this dispatch key may have been executed."""
    scope.set("response", answer.as_value())
    reader = _Reader(scope)
    verdict, error_class = _verdict(submit, answer, reader)
    result, usage = None, _Reader(scope)
    if verdict in ("succeeded", "partial"):
        result = answer.body if submit.result is None else reader.value(submit.result)
        if reader.problem:
            verdict, result = "unknown", None
    units, cost = None, None
    if verdict in ("succeeded", "partial", "failed"):
        # By a reader of its own: usage that makes no sense does not undo a success that was verified.
        units = None if submit.units is None else usage.quantity(submit.units)
        cost = None if submit.cost is None else usage.quantity(submit.cost)
    if repeat and verdict == "not_executed":
        verdict = "unknown"
    # Only an answer that tells what was executed speaks for the first sending too; a refused repeat says nothing of it.
    over = verdict != "unknown" or (not repeat and answer.status not in GATEWAY_STATUSES)
    code, message = ("", "") if verdict in ("succeeded", "partial") else _error(submit, answer, scope, reader, verdict)
    return Outcome(
        over=over,
        verdict=verdict,
        error_class=error_class,
        status=answer.status,
        units=units,
        cost=cost,
        # A failure need not say what it used.
        usage_problem="" if verdict == "failed" else redacted(usage.problem, call, MAX_ERROR_LENGTH),
        result=result,
        error_code=redacted(code, call, MAX_CODE_LENGTH),
        error_message=redacted(message, call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
    )


def no_answer(why: NoAnswer, repeat: bool) -> Outcome:
    """The Outcome of a call that brought no complete answer."""
    unsent = why == "connect_failed" and not repeat
    return Outcome(
        over=unsent,
        verdict="not_executed" if unsent else "unknown",
        error_class="transient" if why == "connect_failed" else "",
        status=None,
        units=None,
        error_code=why,
        error_message=_NO_ANSWER[why],
    )


def not_sent(problem: str, call: Call, repeat: bool) -> Outcome:
    """The Outcome of a call that could not be built. On a repeat the earlier sending stays unknown."""
    return Outcome(
        over=not repeat,
        verdict="unknown" if repeat else "not_executed",
        error_class="rejected",
        status=None,
        units=None,
        error_code="mapping_error",
        error_message=redacted(problem, call, MAX_ERROR_LENGTH),
    )


def redacted(text: str, call: Call, length: int) -> str:
    """The text without the account's credential, in one line, bounded."""
    if not text:
        return ""
    text = text[: 100 * length]
    for secret in sorted(_secrets(call.account.get("credential")), key=len, reverse=True):
        text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    return re.sub(r"\s+", " ", text).strip().replace("\x00", "\ufffd")[:length]


def _verdict(submit: Submit, answer: Answer, reader: "_Reader") -> tuple[Verdict, ErrorClass]:
    """Each expression replaces the default of its class; what none claims has failed if readable, else is unknown."""
    status, fine = answer.status, 200 <= answer.status < 300
    if answer.readable:
        success = submit.success is not None and reader.holds(submit.success)
        partial = not success and submit.partial is not None and reader.holds(submit.partial)
        success = success or (submit.success is None and fine and not partial)
        if (success or partial) and not reader.problem:
            return ("partial" if partial else "succeeded"), ""
    busy = status == BUSY_STATUS if submit.busy is None else reader.holds(submit.busy)
    if busy:
        return "not_executed", "busy"
    if status in REJECTED_STATUSES if submit.rejected is None else reader.holds(submit.rejected):
        return "not_executed", "rejected"
    unavailable = status == UNAVAILABLE_STATUS if submit.not_executed is None else reader.holds(submit.not_executed)
    if unavailable or status in AUTH_STATUSES:
        return "not_executed", "auth" if status in AUTH_STATUSES else "transient"
    if fine and answer.readable and not reader.problem:
        return "failed", ""
    return "unknown", ""


class _Reader:
    """Evaluates over an answer and keeps the first problem: an expression that failed has not said no."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.problem = ""

    def value(self, expression: Expression) -> Any:
        try:
            return expression.evaluate(self.scope)
        except ExpressionError as error:
            self.problem = self.problem or f"{expression.source[:80]}: {error}"
            return None

    def holds(self, expression: Expression) -> bool:
        value = self.value(expression)
        if not isinstance(value, bool) and not self.problem:
            self.problem = f"{expression.source[:80]}: neither true nor false"
        return value is True

    def quantity(self, expression: Expression) -> float | None:
        value = self.value(expression)
        if value is None:
            self.problem = self.problem or f"{expression.source[:80]}: there is none"
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_UNITS:
            self.problem = self.problem or f"{expression.source[:80]}: what was used is a number from 0 to 1e15"
            return None
        return value


def _error(submit: Submit, answer: Answer, scope: Scope, reader: _Reader, verdict: Verdict) -> tuple[str, str]:
    if verdict == "unknown" and not answer.readable:
        return "unreadable_answer", "the answer promises JSON that cannot be read"
    if verdict == "unknown" and reader.problem:
        return "mapping_error", reader.problem
    said = answer.body if submit.error is None else _Reader(scope).value(submit.error)
    code, message = _said(said)
    return code or f"http_{answer.status}", message or f"the upstream answered {answer.status}"


def _said(value: Any) -> tuple[str, str]:
    """Code and text of an error as upstreams write it: a text, or a map of message and code, or that under `error`."""
    if isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict):
            return _said(inner)
        code = value.get("code", value.get("type", ""))
        texts = (value.get(name) for name in ("message", "error", "detail", "title", "error_message"))
        return (str(code) if isinstance(code, str | int) else ""), next((t for t in texts if isinstance(t, str)), "")
    return "", value if isinstance(value, str) else ""


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _secrets(item)
