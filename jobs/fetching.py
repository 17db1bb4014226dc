"""Results behind links: owed when the attempt has ended, paid when our copies are stored. Only the finish waits for them.

The session is free meanwhile. What is taken up is kept by renewing `fetch_at`; one whose process died is taken up again.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from django.db import transaction

from jobs.findings import Finding
from jobs.queries import attempts, fetches
from jobs.signals import announce_attempts, attempt_ended, attempt_owing
from upstream.result_files import ALONE, UNAVAILABLE

PAUSES_SECONDS: Final = (10.0, 30.0, 120.0, 300.0)  # between the tries: five within about ten minutes
LONGEST_MESSAGE: Final = 300
logger = logging.getLogger(__name__)


def owe(findings: Sequence[Finding], ended: Collection[int]) -> None:
    """Within `learn`: the attempts that ended now with links owe their files before their jobs are finished."""
    links = {f.flight.attempt_id: f.outcome.files for f in findings if f.proven and f.outcome.files}
    mine = {attempt_id: by_name for attempt_id, by_name in links.items() if attempt_id in ended}
    if mine:
        announce_attempts(attempt_owing, fetches.owe(mine))


def paid(attempt_id: int, tries: int, result: Any) -> bool:
    """PROCESSING stays PROCESSING: the files are stored, the result says which; the job may be finished.

    Locks the attempt. False: a later try has taken it up, or has won; nothing was changed.
    """
    with transaction.atomic():
        done = fetches.fetched(attempt_id, tries, result)
        announce_attempts(attempt_ended, done)
    return bool(done)


def unpaid(attempt_id: int, fence: int, tries: int, why: str) -> None:
    """PROCESSING stays PROCESSING: a try brought nothing. It is tried again after a pause; after the last the attempt failed.

    What it cost the account stays booked, the tenant's hold is released. Locks the attempt; late, it changes nothing.
    """
    message = why[:LONGEST_MESSAGE]
    content = {"try": tries, "error_code": UNAVAILABLE, "error_message": message}
    logger.warning("result of attempt %s was not fetched: %s", attempt_id, message, extra={"attempt": attempt_id})
    with transaction.atomic():
        attempts.append_evidence([{"id": attempt_id, "fence": fence, "kind": "fetch", "content": content}])
        if tries <= len(PAUSES_SECONDS):
            announce_attempts(attempt_owing, fetches.again(attempt_id, tries, PAUSES_SECONDS[tries - 1]))
        else:
            announce_attempts(attempt_ended, fetches.given_up(attempt_id, tries, UNAVAILABLE, message))


def result_with(result: Any, files: Mapping[str, Mapping[str, Any]]) -> Any:
    """The result of a job: its one file, its files by name, or where the type says a result, both."""
    if result is not None:
        return {"result": result, "files": dict(files)}
    return dict(files[ALONE]) if files.keys() == {ALONE} else dict(files)
