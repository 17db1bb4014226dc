"""What the answers to polls, finds, cancels and callbacks mean: it goes on, it has ended so, or nobody knows.

Nothing has a default here but `missing` of find: an answer that no expression claims, a poll's 404 among them, is unknown,
and so is one that two contrary expressions claim. Only a claimed end says that the session is over.
"""

from dataclasses import replace
from typing import Final

from upstream import reading
from upstream.answer import Answer, retry_after_ms
from upstream.calls import Call, ErrorClass, Outcome, Verdict
from upstream.expressions import Scope
from upstream.following import Callback, Cancel, Find, Meanings, Poll
from upstream.mapping import AUTH_STATUSES, BUSY_STATUS
from upstream.reading import Reader
from upstream.wording import (
    MAX_CODE_LENGTH,
    MAX_ERROR_LENGTH,
    NO_ANSWER,
    NoAnswer,
    code_and_text,
    redacted,
)

MISSING_STATUS: Final = 404
OTHER_REFERENCE: Final = "other_reference"


def read_poll(poll: Poll, call: Call, scope: Scope, answer: Answer) -> Outcome:
    return _read(poll.says, call, scope, answer)


def read_find(find: Find, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """As a poll, with the `reference` it tells; what is missing there was not executed."""
    scope.set("response", answer.as_value())
    reader = Reader(scope)
    missing = answer.status == MISSING_STATUS if find.missing is None else reader.holds(find.missing)
    found = _read(find.says, call, scope, answer)
    claimed = found.over or not found.verdict
    if missing and claimed and find.missing is not None:
        return _unknown(answer, call, "mapping_error", "missing claims the answer, and another expression too")
    if claimed or not missing:
        told = reading.reference(find.reference, scope)
        return replace(found, reference=told) if told else found
    return replace(
        found,
        over=True,
        verdict="not_executed",
        error_class="",
        retry_after_ms=None,
        error_code="missing",
        error_message="the upstream knows nothing under this dispatch key",
        usage_problem="",
    )


def read_cancel(cancel: Cancel, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """`failed` with the code `cancelled` where it says that the session is over; empty where it was asked for only."""
    scope.set("response", answer.as_value())
    reader = Reader(scope)
    over = answer.readable and reader.holds(cancel.success)
    taken = answer.readable and 200 <= answer.status < 300 and not reader.problem
    if not over and not taken:
        code, message = code_and_text(answer, None, reader, unclear=True)
        return _unknown(answer, call, code, message)
    return Outcome(
        over=over,
        verdict="failed" if over else "",
        status=answer.status,
        error_code="cancelled" if over else "",
        error_message="cancelled on request" if over else "",
        retry_after_ms=retry_after_ms(answer.headers),
    )


def read_callback(callback: Callback, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """As a poll, with the `reference` it tells. What speaks of other work than the call's says nothing of it."""
    found = _read(callback.says, call, scope, answer)
    told = reading.reference(callback.reference, scope)
    named = callback.reference is not None and answer.readable
    if named and call.reference and told != call.reference:
        return _unknown(answer, call, OTHER_REFERENCE, "it speaks of other work, or of none")
    return replace(found, reference=told) if told else found


def unanswered(why: NoAnswer) -> Outcome:
    """The Outcome of a poll, find or cancel that brought no complete answer."""
    error_class: ErrorClass = "transient" if why == "connect_failed" else ""
    return Outcome(over=False, verdict="unknown", error_class=error_class, error_code=why, error_message=NO_ANSWER[why])


def unasked(problem: str, call: Call) -> Outcome:
    """The Outcome of a poll, find, cancel or callback that is not declared, or could not be built."""
    return Outcome(
        over=False,
        verdict="unknown",
        error_code="mapping_error",
        error_message=redacted(problem, call, MAX_ERROR_LENGTH),
    )


def _read(says: Meanings, call: Call, scope: Scope, answer: Answer) -> Outcome:
    scope.set("response", answer.as_value())
    reader = Reader(scope)
    verdict = _claimed(says, reader) if answer.readable else "unknown"
    result = None
    if verdict in ("succeeded", "partial"):
        result = answer.body if says.result is None else reader.value(says.result)
        if reader.problem:
            verdict, result = "unknown", None
    if verdict == "unknown":
        code, message = code_and_text(answer, says.error, reader, unclear=True)
        return _unknown(answer, call, code, message)
    if verdict == "":
        far = reading.progress(says.progress, scope)
        return Outcome(
            over=False,
            verdict="",
            status=answer.status,
            reference=call.reference,
            progress=far,
            retry_after_ms=retry_after_ms(answer.headers),
        )
    return replace(_ended(says, call, scope, answer, verdict), result=result)


def _ended(says: Meanings, call: Call, scope: Scope, answer: Answer, verdict: Verdict) -> Outcome:
    used = reading.usage(says.units, says.cost, scope)
    code, message = ("", "")
    if verdict == "failed":
        code, message = code_and_text(answer, says.error, Reader(scope), unclear=False)
    return Outcome(
        over=True,
        verdict=verdict,
        status=answer.status,
        units=used.units,
        cost=used.cost,
        # A failure need not say what it used.
        usage_problem="" if verdict == "failed" else redacted(used.problem, call, MAX_ERROR_LENGTH),
        error_code=redacted(code, call, MAX_CODE_LENGTH),
        error_message=redacted(message, call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
        reference=call.reference,
    )


def _claimed(says: Meanings, reader: Reader) -> Verdict:
    """The one meaning that claims the answer. Success and partial are one claim; success wins as it does on a submit."""
    success = reader.holds(says.success)
    partial = not success and reader.holds(says.partial)
    # One that could not be evaluated may have meant success where another says partial.
    unread = bool(reader.problem)
    running, failed = reader.holds(says.running), reader.holds(says.failed)
    if running + failed + (success or partial) > 1:
        reader.problem = "contrary expressions claim the answer: success, running and failed exclude each other"
        return "unknown"
    if running or failed:
        # A claim that holds stands, whatever the others could not read: a failed task seldom has an output to look at.
        reader.problem = ""
        return "" if running else "failed"
    if success or partial:
        if unread:
            return "unknown"
        reader.problem = ""
        return "succeeded" if success else "partial"
    return "unknown"


def _unknown(answer: Answer, call: Call, code: str, message: str) -> Outcome:
    status = answer.status
    error_class: ErrorClass = ""
    if status in AUTH_STATUSES:
        error_class = "auth"
    elif status == BUSY_STATUS:
        error_class = "busy"
    elif status >= 500:
        error_class = "transient"
    return Outcome(
        over=False,
        verdict="unknown",
        error_class=error_class,
        status=status,
        error_code=redacted(code, call, MAX_CODE_LENGTH),
        error_message=redacted(message, call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
    )
