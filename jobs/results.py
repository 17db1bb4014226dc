"""Results before they are learned: what is too large for a row, or no JSON, becomes a file, and the row says which.

Bytes are written before the transaction that ends the attempt. A crash between leaves a file nobody asks for, which expires.
"""

import io
import json
import mimetypes
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from files import storing
from files.models import File
from files.storing import Readable
from jobs import transitions
from jobs.findings import Finding
from jobs.queries.results import is_result, may_end, owner
from jobs.states import PROVEN
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row
from upstream.calls import Outcome

JSON: Final = "application/json"
MARK: Final = frozenset({"file", "url", "content_type", "size", "sha256"})
BEFORE: Final = MARK - {"url"}  # as it stood in results of earlier versions
LONGEST_TYPE: Final = 255
MOST_KNOWN: Final = 1_000
KNOWN_SECONDS: Final = 600.0  # how long a file that is not learned yet waits for whoever tries again
_Key = tuple[int, int, str]  # attempt, fence, from where it is known
_known: dict[_Key, tuple[float, Row]] = {}  # what was stored and is not learned yet, the oldest first
_at_work = threading.Condition()
_attempts: set[int] = set()  # of which a result is being stored in this process


def learn(findings: Sequence[Finding]) -> None:
    """`transitions.learn`, with results that a row does not hold stored as files before.

    Raises what the storage raises: then those that need no file are learned, and the caller tries the others again. What
    it stored already is not stored a second time.
    """
    for finding in learn_at_once(findings):
        with _alone(finding.flight.attempt_id):
            _learn_stored(finding)


def learn_at_once(findings: Sequence[Finding]) -> list[Finding]:
    """`transitions.learn` of all that need no file; gives the others."""
    waiting = [finding for finding in findings if _content(finding.outcome) is not None]
    apart = {id(finding) for finding in waiting}
    if at_once := [finding for finding in findings if id(finding) not in apart]:
        transitions.learn(at_once)
    return waiting


def _learn_stored(finding: Finding) -> None:
    flight, key = finding.flight, (finding.flight.attempt_id, finding.flight.fence, finding.kind)
    fence = None if finding.of_key else flight.fence
    if not may_end(flight.attempt_id, fence):  # what comes late has no result that anybody sees
        transitions.learn([replace(finding, outcome=replace(finding.outcome, result=None, content=None))])
        return
    row = _stored(key, finding)
    crashpoint("result.stored")
    transitions.learn([replace(finding, outcome=replace(finding.outcome, result=mark(row), content=None))])
    with _at_work:
        _known.pop(key, None)
    crashpoint("result.learned")
    if not is_result(flight.attempt_id, row["id"]):  # another process was first
        give_up([row])


def _stored(key: _Key, finding: Finding) -> Row:
    now = time.monotonic()
    with _at_work:
        for each, (since, _) in list(_known.items()):
            if since < now - KNOWN_SECONDS or len(_known) > MOST_KNOWN:
                del _known[each]
        if key in _known:
            return _known[key][1]
    raw, content_type = _content(finding.outcome) or (b"null", JSON)
    row = keep(finding.flight.job_id, io.BytesIO(raw), len(raw), "result", content_type)
    with _at_work:
        _known[key] = (now, row)
    return row


@contextmanager
def _alone(attempt_id: int) -> Iterator[None]:
    """One at a time of each attempt: two callbacks at once store one file."""
    with _at_work:
        _at_work.wait_for(lambda: attempt_id not in _attempts)
        _attempts.add(attempt_id)
    try:
        yield
    finally:
        with _at_work:
            _attempts.discard(attempt_id)
            _at_work.notify_all()


def keep(job_id: UUID, source: Readable, size: int, name: str, content_type: str) -> Row:
    """Stores a result of this job; its row in files."""
    kind = content_type.strip()[:LONGEST_TYPE] or "application/octet-stream"
    suffix = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ""
    return storing.put(
        owner(job_id),
        source,
        kind=File.Kind.RESULT,
        size=size,
        name=name if "." in name else f"{name}{suffix}",
        content_type=kind if kind.isprintable() and kind.isascii() else "application/octet-stream",
        keep_seconds=settings.RESULT_TTL_SECONDS,
        job_id=job_id,
    )


def give_up(rows: Sequence[Row]) -> None:
    """What `keep` stored and nobody is told of."""
    for row in rows:
        storing.give_up(row["id"], row["place"])


def mark(row: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for a file in a result."""
    about = {name: row[name] for name in ("content_type", "size", "sha256")}
    return {"file": str(row["id"]), "url": f"/v1/files/{row['id']}/content", **about}


def file_of(result: Any) -> UUID | None:
    """The file that a result is. None: it is the result itself."""
    return UUID(result["file"]) if _is_mark(result) else None


def whole(job_id: UUID, result: Any) -> Row | None:
    """The file that this result becomes, stored; None where a row holds the result itself. `result` is JSON."""
    raw = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    if len(raw) <= settings.MAX_RESULT_BYTES and not _is_mark(result):
        return None
    return keep(job_id, io.BytesIO(raw), len(raw), "result", JSON)


def _content(outcome: Outcome) -> tuple[bytes, str] | None:
    """What is to be a file: bytes that are no JSON, JSON that is large, or that could be taken for the mark of a file."""
    if outcome.verdict not in PROVEN or outcome.files or outcome.unread is not None:
        return None
    if outcome.content is not None:
        return outcome.content
    try:
        raw = json.dumps(outcome.result, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        return None  # an adapter's own odd value: what can be stored of it is what `Finding.end` makes of it
    return (raw, JSON) if _is_mark(outcome.result) or len(raw) > settings.MAX_RESULT_BYTES else None


def _is_mark(result: Any) -> bool:
    return isinstance(result, dict) and result.keys() in (MARK, BEFORE) and isinstance(result["file"], str)
