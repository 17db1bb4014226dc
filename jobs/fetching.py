"""Results behind links: owed when the attempt has ended, paid when our copies are stored. Only the finish waits for them.

The session is free meanwhile, the hold stays. What is taken up is kept by renewing `fetch_at`; one whose process died is taken
up again. A link that brings nothing is given up after some tries. Where what is declared is wrong, the work was done and paid
for upstream: it waits for a day to be mended. After that there is no way back: the hold was released, its tenant may have
spent those credits, or run the job again.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from jobs.findings import Finding
from jobs.flight import Flight
from jobs.queries import attempts, fetches, flights
from jobs.signals import announce_attempts, attempt_ended, attempt_owing
from statemachine.crashpoints import crashpoint
from upstream.result_files import ALONE, UNAVAILABLE

PAUSES_SECONDS: Final = (10.0, 30.0, 120.0, 300.0)  # between the tries of a link: five within about ten minutes
PUT_OFF_SECONDS: Final = 1_800.0  # between the tries where what is declared is wrong
LONGEST_WAIT_SECONDS: Final = 86_400.0  # for somebody to mend it, since the attempt ended
MOST_LOST: Final = 10  # tries that died with their process: a result that kills whoever fetches it is given up
LONGEST_MESSAGE: Final = 300
logger = logging.getLogger(__name__)


def owe(findings: Sequence[Finding], ended: Collection[tuple[int, int]]) -> None:
    """Within `learn`: attempts that `ended` now, with these fences, and have links owe files before their jobs are finished."""
    if mine := {f.flight.attempt_id: _owed(f) for f in findings if f.flight.fenced in ended and f.proven and _owed(f)}:
        announce_attempts(attempt_owing, fetches.owe(mine))


def take(job_ids: Sequence[UUID], most: int) -> list[Flight]:
    """PROCESSING stays PROCESSING: at most `most` of what these jobs owe is taken up, and fetched by whoever called.

    One whose tries were lost too often is not begun again: the attempt failed. Locks those attempts; a second caller skips
    them.
    """
    with transaction.atomic():
        taken = fetches.take(job_ids, settings.LEASE_SECONDS, most)
        lost = {row["id"] for row in taken if row["taken"] - 1 - row["failed"] >= MOST_LOST}
        for row in taken:
            if row["id"] in lost:
                _give_up(row["id"], row["taken"], f"whoever fetched it was lost {MOST_LOST} times")
        return flights.owing([row["id"] for row in taken if row["id"] not in lost])


def is_unread(links: Any) -> bool:
    """Whether an attempt's `links` are an answer, as the only item of a list, in which they are to be found yet."""
    return isinstance(links, list)


def paid(attempt_id: int, taken: int, result: Any) -> bool:
    """PROCESSING stays PROCESSING: the files are stored, the result says which; the job may be finished.

    Locks the attempt. False: a later try has taken it up, or has won; nothing was changed.
    """
    with transaction.atomic():
        done = fetches.fetched(attempt_id, taken, result)
        crashpoint("fetch.paid", done)
        announce_attempts(attempt_ended, done)
    return bool(done)


def unpaid(flight: Flight, taken: int, why: str) -> None:
    """PROCESSING stays PROCESSING: a link brought nothing. It is tried again after a pause; after the last the attempt failed.

    What it cost the account stays booked, the tenant's hold is released. Locks the attempt; late, it changes nothing. Only
    tries that failed are counted here, not those that a restart cut.
    """
    with transaction.atomic():
        failed = fetches.failed(flight.attempt_id)
        pause = PAUSES_SECONDS[failed["link"]] if failed["link"] < len(PAUSES_SECONDS) else None
        if _again_or_given_up(flight.attempt_id, taken, why, pause):
            _note(flight, why, "link", failed)


def put_off(flight: Flight, taken: int, why: str) -> None:
    """PROCESSING stays PROCESSING: what is declared, or our own storage, kept the files from us. It waits to be mended.

    For a day, then the attempt failed. None of these tries counts against the link. Locks the attempt; late, it changes
    nothing.
    """
    with transaction.atomic():
        failed = fetches.failed(flight.attempt_id)
        pause = PAUSES_SECONDS[failed["ours"]] if failed["ours"] < len(PAUSES_SECONDS) else PUT_OFF_SECONDS
        waited = fetches.waited_seconds(flight.attempt_id)
        if _again_or_given_up(flight.attempt_id, taken, why, pause if waited < LONGEST_WAIT_SECONDS else None):
            _note(flight, why, "ours", failed)


def left(attempt_id: int, taken: int) -> None:
    """PROCESSING stays PROCESSING: its process ends, another may take it up now. Locks the attempt; late, changes nothing."""
    with transaction.atomic():
        announce_attempts(attempt_owing, fetches.let_go(attempt_id, taken))


def hasten(job_id: UUID) -> bool:
    """PROCESSING stays PROCESSING: what the job's attempt owes is tried now instead of later.

    Locks the attempt. False: there is none, or it is being fetched or about to be; a second caller changes nothing.
    """
    with transaction.atomic():
        due = fetches.hasten(job_id, settings.LEASE_SECONDS)
        announce_attempts(attempt_owing, due)
    return bool(due)


def result_with(result: Any, files: Mapping[str, Mapping[str, Any]]) -> Any:
    """The result of a job: its one file, its files by name, or where the type says a result, both."""
    if result is not None:
        return {"result": result, "files": dict(files)}
    return dict(files[ALONE]) if files.keys() == {ALONE} else dict(files)


def _owed(finding: Finding) -> Any:
    unread = finding.outcome.unread
    return finding.outcome.files if unread is None else [unread]


def _note(flight: Flight, why: str, cause: str, failed: Mapping[str, int]) -> None:
    """Keeps that a try failed, and why; so many had before it."""
    message, number = why[:LONGEST_MESSAGE], failed["link"] + failed["ours"] + 1
    content = {"try": number, "cause": cause, "error_code": UNAVAILABLE, "error_message": message}
    about = {"id": flight.attempt_id, "fence": flight.fence, "key": flight.row["dispatch_key"]}
    logger.warning("result of attempt %s was not fetched: %s", about["id"], message, extra={"attempt": about["id"]})
    attempts.append_evidence([{**about, "kind": fetches.FETCH, "content": content}])
    crashpoint("fetch.noted")


def _again_or_given_up(attempt_id: int, taken: int, why: str, pause_seconds: float | None) -> bool:
    """Whether this try still counted."""
    if pause_seconds is None:
        return _give_up(attempt_id, taken, why)
    again = fetches.again(attempt_id, taken, pause_seconds, UNAVAILABLE, why[:LONGEST_MESSAGE])
    announce_attempts(attempt_owing, again)
    return bool(again)


def _give_up(attempt_id: int, taken: int, why: str) -> bool:
    given_up = fetches.given_up(attempt_id, taken, UNAVAILABLE, why[:LONGEST_MESSAGE])
    announce_attempts(attempt_ended, given_up)
    return bool(given_up)
