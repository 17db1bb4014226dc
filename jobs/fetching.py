"""Results behind links: owed when the attempt has ended, paid when our copies are stored. Only the finish waits for them.

The session is free meanwhile. What is taken up is kept by renewing `fetch_at`; one whose process died is taken up again.
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
from upstream.result_files import ALONE, UNAVAILABLE

PAUSES_SECONDS: Final = (10.0, 30.0, 120.0, 300.0)  # between the tries: five within about ten minutes
MOST_LOST: Final = 10  # tries that died with their process: a result that kills whoever fetches it is given up
LONGEST_MESSAGE: Final = 300
logger = logging.getLogger(__name__)


def owe(findings: Sequence[Finding], ended: Collection[int]) -> None:
    """Within `learn`: the attempts that ended now with links owe their files before their jobs are finished."""
    links = {f.flight.attempt_id: f.outcome.files for f in findings if f.proven and f.outcome.files}
    mine = {attempt_id: by_name for attempt_id, by_name in links.items() if attempt_id in ended}
    if mine:
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


def paid(attempt_id: int, taken: int, result: Any) -> bool:
    """PROCESSING stays PROCESSING: the files are stored, the result says which; the job may be finished.

    Locks the attempt. False: a later try has taken it up, or has won; nothing was changed.
    """
    with transaction.atomic():
        done = fetches.fetched(attempt_id, taken, result)
        announce_attempts(attempt_ended, done)
    return bool(done)


def unpaid(attempt_id: int, fence: int, taken: int, why: str) -> None:
    """PROCESSING stays PROCESSING: a try brought nothing. It is tried again after a pause; after the last the attempt failed.

    What it cost the account stays booked, the tenant's hold is released. Locks the attempt; late, it changes nothing. Only
    tries that failed are counted here, not those that a restart cut.
    """
    message = why[:LONGEST_MESSAGE]
    logger.warning("result of attempt %s was not fetched: %s", attempt_id, message, extra={"attempt": attempt_id})
    with transaction.atomic():
        failed = fetches.failed(attempt_id)
        content = {"try": failed + 1, "error_code": UNAVAILABLE, "error_message": message}
        attempts.append_evidence([{"id": attempt_id, "fence": fence, "kind": fetches.FETCH, "content": content}])
        if failed < len(PAUSES_SECONDS):
            announce_attempts(attempt_owing, fetches.again(attempt_id, taken, PAUSES_SECONDS[failed]))
        else:
            _give_up(attempt_id, taken, message)


def left(attempt_id: int, taken: int) -> None:
    """PROCESSING stays PROCESSING: its process ends, another may take it up now. Locks the attempt; late, changes nothing."""
    with transaction.atomic():
        announce_attempts(attempt_owing, fetches.again(attempt_id, taken, 0))


def _give_up(attempt_id: int, taken: int, why: str) -> None:
    announce_attempts(attempt_ended, fetches.given_up(attempt_id, taken, UNAVAILABLE, why))


def result_with(result: Any, files: Mapping[str, Mapping[str, Any]]) -> Any:
    """The result of a job: its one file, its files by name, or where the type says a result, both."""
    if result is not None:
        return {"result": result, "files": dict(files)}
    return dict(files[ALONE]) if files.keys() == {ALONE} else dict(files)
