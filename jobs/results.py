"""Results before they are learned: what is too large for a row, or no JSON, becomes a file, and the row says which.

Bytes are written before the transaction that ends the attempt. A crash between leaves a file nobody asks for, which expires.
"""

import io
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from files import storing
from files.models import File
from files.storing import Readable
from jobs import transitions
from jobs.findings import Finding
from jobs.queries.results import owner
from jobs.states import PROVEN
from statemachine.sql import Row
from upstream.calls import Outcome

JSON: Final = "application/json"
MARK: Final = frozenset({"file", "url", "content_type", "size", "sha256"})
BEFORE: Final = MARK - {"url"}  # as it stood in results of earlier versions
LONGEST_TYPE: Final = 255
_stored: dict[tuple[int, int], Outcome] = {}  # attempt and fence → what was stored and is not learned yet


def learn(findings: Sequence[Finding]) -> None:
    """`transitions.learn`, with results that a row does not hold stored as files before.

    Raises what the storage raises: then nothing is learned, and the caller tries again. What it stored already is not stored
    a second time.
    """
    transitions.learn([kept(finding) for finding in findings])
    for finding in findings:
        _stored.pop(_key(finding), None)


def kept(finding: Finding) -> Finding:
    """The finding with a result that a row holds."""
    if (known := _stored.get(_key(finding))) is not None:
        return replace(finding, outcome=known)
    content = _content(finding.outcome)
    if content is None:
        return finding
    raw, content_type = content
    row = keep(finding.flight.job_id, io.BytesIO(raw), len(raw), "result", content_type)
    outcome = _stored[_key(finding)] = replace(finding.outcome, result=mark(row), content=None)
    return replace(finding, outcome=outcome)


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


def mark(row: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for a file in a result."""
    about = {name: row[name] for name in ("content_type", "size", "sha256")}
    return {"file": str(row["id"]), "url": f"/v1/files/{row['id']}/content", **about}


def file_of(result: Any) -> UUID | None:
    """The file that a result is. None: it is the result itself."""
    return UUID(result["file"]) if _is_mark(result) else None


def fitting(job_id: UUID, result: Any) -> Any:
    """The result as a row holds it: itself, or the mark of the file that it becomes. `result` is JSON."""
    raw = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    if len(raw) <= settings.MAX_RESULT_BYTES and not _is_mark(result):
        return result
    return mark(keep(job_id, io.BytesIO(raw), len(raw), "result", JSON))


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


def _key(finding: Finding) -> tuple[int, int]:
    return finding.flight.attempt_id, finding.flight.fence
