"""An upstream's answer, read: the body as JSON or text, cleaned of what no database can store, and Retry-After."""

import codecs
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

MAX_RETRY_AFTER_MS: Final = 24 * 3_600_000
LARGE: Final = 256_000  # bytes; reading more takes long enough to be done beside the loop
_CHARSETS = frozenset({"utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "gbk", "big5"}) | {
    *("shift_jis", "euc_jp", "euc_kr", "koi8-r", "koi8-u", "utf-8-sig")
}
_TEXT_TYPES = ("text/", "application/xml", "application/x-www-form-urlencoded", "application/javascript")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `body` is parsed JSON, the text, or None; not `readable`: it promised more than it held.

    `raw`: the bytes of a body that is neither, such as an image.
    """

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: Any = None
    readable: bool = True
    raw: bytes = field(default=b"", repr=False)
    size: int = 0  # bytes it came in

    def as_value(self) -> dict[str, Any]:
        """What expressions see as `response`."""
        return {"status": self.status, "headers": dict(self.headers), "body": self.body}


def read(status: int, headers: Mapping[str, str], raw: bytes) -> Answer:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    body, readable = _body(kind, headers.get("content-type", ""), raw)
    return Answer(status, headers, body, readable, raw if body is None and readable and raw.strip() else b"", len(raw))


def retry_after_ms(headers: Mapping[str, str], now: datetime | None = None) -> int | None:
    """Retry-After in seconds, or as an HTTP date by the clock that the answer's own Date shows, else by `now` or ours.

    None when absent or unreadable, never negative, at most a day.
    """
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return min(math.ceil(float(value[:20]) * 1_000), MAX_RETRY_AFTER_MS)
    if (due := _http_date(value)) is None:
        return None
    wait = (due - (_http_date(headers.get("date", "")) or now or datetime.now(UTC))).total_seconds()
    return min(max(math.ceil(wait * 1_000), 0), MAX_RETRY_AFTER_MS)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _body(kind: str, content_type: str, raw: bytes) -> tuple[Any, bool]:
    if not raw.strip():
        return None, True
    is_json = kind == "application/json" or kind.endswith("+json")
    is_text = kind.startswith(_TEXT_TYPES)
    # Many say text/plain, or nothing, and send JSON.
    if is_json or (not is_text and kind in ("", "application/octet-stream")) or raw.lstrip()[:1] in (b"{", b"["):
        try:
            return _storable(json.loads(raw, parse_constant=_refuse, parse_float=_finite)), True
        except (ValueError, RecursionError):
            if is_json:
                return None, False
    charset = re.search(r"charset=\"?([\w.:-]+)", content_type, re.IGNORECASE)
    try:
        return _clean(raw.decode(_codec(charset[1] if charset else "utf-8"))), True
    except (UnicodeError, LookupError):
        # An image or a sound is no text and no mistake either: its expressions see a body of null.
        return None, not is_text


def _codec(charset: str) -> str:
    """Raises LookupError for what is no character set of texts: Python's other codecs take long, or do other things."""
    name = codecs.lookup(charset).name
    if name not in _CHARSETS and not name.startswith(("iso8859-", "cp125")):
        raise LookupError(charset)
    return name


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond all bounds")
    return number


def _storable(value: Any) -> Any:
    """PostgreSQL refuses NUL and half surrogate pairs; one such answer must not block the writing of others.

    Raises ValueError for what is nested too deeply to be walked.
    """
    try:
        return _clean(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
