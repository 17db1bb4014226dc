"""Did it happen? From an answer to a submit, or from none, to an Outcome: by the type's expressions, else by the status.

Two questions are decided apart. Is the session over? Where the answer is the result (mode sync), any complete answer but
502 and 504 says so; where it is a reference, only a refusal. Was it executed? A refusal means no on a first sending only;
what is unclear is unknown, and neither an error body nor what cannot be read is ever a success.
"""

from dataclasses import replace
from typing import Final

from upstream import reading
from upstream.answer import Answer, retry_after_ms
from upstream.calls import Call, ErrorClass, Outcome, Verdict
from upstream.expressions import Scope
from upstream.reading import Reader, Usage
from upstream.spec import Submit
from upstream.wording import (
    MAX_CODE_LENGTH,
    MAX_ERROR_LENGTH,
    NO_ANSWER,
    NoAnswer,
    code_and_text,
    has_error,
    redacted,
)

REJECTED_STATUSES: Final = frozenset({400, 404, 422})
# The account's fault, not the job's: its credential is refused, or it has no credits left at its provider.
AUTH_STATUSES: Final = frozenset({401, 402, 403})
BUSY_STATUS: Final = 429
UNAVAILABLE_STATUS: Final = 503
# Given by something between us and the upstream, which may still be working.
GATEWAY_STATUSES: Final = frozenset({502, 504})
PROVEN: Final = ("succeeded", "partial")

Said = tuple[Verdict, ErrorClass]


def read_answer(submit: Submit, call: Call, scope: Scope, answer: Answer, repeat: bool) -> Outcome:
    """The Outcome of a complete answer. `repeat`: an earlier sending of this dispatch key may have been executed."""
    scope.set("response", answer.as_value())
    if Reader(scope).holds(submit.exists):
        return _exists(submit, call, scope, answer)
    reader = Reader(scope)
    if submit.mode != "sync":
        return _started(submit, call, reader, answer, repeat)
    verdict, error_class = _verdict(submit, answer, reader)
    result = None
    if verdict in PROVEN:
        result = answer.body if submit.result is None else reader.value(submit.result)
        if reader.problem:
            verdict, result = "unknown", None
    if repeat and verdict == "not_executed":
        verdict = "unknown"
    # Only an answer that tells what was executed speaks for the first sending too; a refused repeat says nothing of it.
    over = verdict != "unknown" or (not repeat and answer.status not in GATEWAY_STATUSES)
    return replace(_outcome(submit, call, reader, answer, (verdict, error_class)), over=over, result=result)


def no_answer(why: NoAnswer, repeat: bool) -> Outcome:
    """The Outcome of a submit that brought no complete answer."""
    unsent = why == "connect_failed" and not repeat
    return Outcome(
        over=unsent,
        verdict="not_executed" if unsent else "unknown",
        error_class="transient" if why == "connect_failed" else "",
        error_code=why,
        error_message=NO_ANSWER[why],
    )


def not_sent(problem: str, call: Call, repeat: bool) -> Outcome:
    """The Outcome of a submit that could not be built. On a repeat the earlier sending stays unknown."""
    return Outcome(
        over=not repeat,
        verdict="unknown" if repeat else "not_executed",
        error_class="rejected",
        error_code="mapping_error",
        error_message=redacted(problem, call, MAX_ERROR_LENGTH),
    )


def _started(submit: Submit, call: Call, reader: Reader, answer: Answer, repeat: bool) -> Outcome:
    """Modes in which the answer is a reference: taken, refused, or nobody knows, for a 500 may have begun the work."""
    verdict, error_class = _verdict(submit, answer, reader)
    if verdict in PROVEN:
        return _goes_on(submit, call, reader.scope, answer)
    if repeat and verdict == "not_executed":
        verdict = "unknown"
    return _outcome(submit, call, reader, answer, (verdict, error_class))


def _goes_on(submit: Submit, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """The work was taken. Under a name that is none it cannot be asked for, but it may well run."""
    known = reading.reference(submit.reference, scope)
    if known or submit.reference is None:
        return Outcome(
            over=False,
            verdict="",
            status=answer.status,
            reference=known,
            retry_after_ms=retry_after_ms(answer.headers),
        )
    _, message = code_and_text(answer, submit.error, Reader(scope), unclear=True)
    return Outcome(
        over=False,
        verdict="unknown",
        status=answer.status,
        error_code="empty_reference",
        error_message=redacted(f"the answer names no work to ask for: {message}", call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
    )


def _exists(submit: Submit, call: Call, scope: Scope, answer: Answer) -> Outcome:
    """The upstream has this dispatch key already: an earlier sending was taken. In mode sync its answer is lost."""
    if submit.mode != "sync":
        return _goes_on(submit, call, scope, answer)
    _, message = code_and_text(answer, submit.error, Reader(scope), unclear=False)
    return Outcome(
        over=False,
        verdict="unknown",
        status=answer.status,
        error_code="exists",
        error_message=redacted(message, call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
    )


def _verdict(submit: Submit, answer: Answer, reader: Reader) -> Said:
    """Each expression replaces the default of its class; what none claims is unknown."""
    claimed = _claimed(submit, answer, reader) if answer.readable else None
    if claimed is not None:
        return claimed, ""
    status = answer.status
    # Before busy: an account without credits is often said to be busy, but no wait mends that.
    auth = status in AUTH_STATUSES if submit.auth is None else reader.holds(submit.auth)
    if auth and submit.auth is not None:
        return "not_executed", "auth"
    if status == BUSY_STATUS if submit.busy is None else reader.holds(submit.busy):
        return "not_executed", "busy"
    if status in REJECTED_STATUSES if submit.rejected is None else reader.holds(submit.rejected):
        return "not_executed", "rejected"
    unavailable = status == UNAVAILABLE_STATUS if submit.not_executed is None else reader.holds(submit.not_executed)
    if unavailable or auth:
        return "not_executed", "auth" if auth else "transient"
    return "unknown", ""


def _claimed(submit: Submit, answer: Answer, reader: Reader) -> Verdict | None:
    """Which of success, partial and failed claims the answer; None: none of them does."""
    success = reader.holds(submit.success)
    partial = not success and reader.holds(submit.partial)
    # One that could not be evaluated may have meant success where another says partial.
    unread = bool(reader.problem)
    failed = reader.holds(submit.failed)
    if submit.success is None and not partial and not failed:
        success = 200 <= answer.status < 300 and not has_error(answer.body)
        unread = bool(reader.problem)
    if failed and (success or partial):
        reader.problem = "both success and failed claim the answer"
        return "unknown"
    if not failed and (unread or not (success or partial)):
        return None
    reader.problem = ""  # a claim that holds stands, whatever the others could not read
    if failed:
        return "failed"
    return "partial" if partial else "succeeded"


def _outcome(submit: Submit, call: Call, reader: Reader, answer: Answer, said: Said) -> Outcome:
    verdict, error_class = said
    ended = verdict in (*PROVEN, "failed")
    used = reading.usage(submit.units, submit.cost, reader.scope) if ended else Usage()
    code, message = ("", "")
    if verdict not in PROVEN:
        unclear = verdict == "unknown" and not error_class
        code, message = code_and_text(answer, submit.error, reader, unclear, means=error_class or "failed")
    return Outcome(
        over=verdict != "unknown",
        verdict=verdict,
        error_class=error_class,
        status=answer.status,
        units=used.units,
        cost=used.cost,
        # A failure need not say what it used.
        usage_problem="" if verdict == "failed" else redacted(used.problem, call, MAX_ERROR_LENGTH),
        error_code=redacted(code, call, MAX_CODE_LENGTH),
        error_message=redacted(message, call, MAX_ERROR_LENGTH),
        retry_after_ms=retry_after_ms(answer.headers),
    )
