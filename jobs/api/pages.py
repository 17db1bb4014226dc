"""Pages of a list: the query read strictly, and cursors that are signed and bound to their filters."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core import signing
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from files.models import File
from jobs.admission import InvalidField
from jobs.api.refusals import InvalidFields, Malformed
from jobs.states import JOB

LARGEST_PAGE = 100
DEFAULT_PAGE = 20
EARLIEST_YEAR, LATEST_YEAR = 1970, 9998
LONGEST_WAIT_SECONDS = 30
_SALT = "jobs.api.pages"
Readers = Mapping[str, Callable[[str], Any]]


def read_query(query: QueryDict, readers: Readers) -> dict[str, Any]:
    """The parameters by their readers; an unknown, repeated or wrong one raises InvalidFields."""
    faults, values = [], {}
    for name in query:
        try:
            if name not in readers:
                raise ValueError(f"there is no such parameter; there are {', '.join(readers)}")
            if len(query.getlist(name)) > 1:
                raise ValueError("is given more than once")
            values[name] = readers[name](str(query[name]))
        except ValueError as error:
            faults.append(InvalidField(f"?{name}", str(error)))
    if faults:
        raise InvalidFields(faults)
    return values


def cursor_after(last_id: UUID, tenant_id: int, filters: Mapping[str, Any]) -> str:
    """Where the next page begins. It names a place, and gives no rights."""
    return signing.dumps([str(last_id), _digest(tenant_id, filters)], salt=_SALT)


def place_of(cursor: str, tenant_id: int, filters: Mapping[str, Any]) -> UUID:
    """The id the page comes after. Raises Malformed when it is not ours or the filters are others."""
    try:
        last_id, digest = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature as error:
        raise Malformed("the cursor is not one of ours") from error
    if digest != _digest(tenant_id, filters):
        raise Malformed("the cursor belongs to a list with other filters")
    return UUID(last_id)


def link_to_next(route: str, query: QueryDict, following: str | None) -> dict[str, str]:
    """The header that leads to the next page; none behind the last."""
    if following is None:
        return {}
    more = query.copy()
    more["cursor"] = following
    return {"Link": f'<{route}?{more.urlencode()}>; rel="next"'}


def a_state(text: str) -> str:
    if text not in JOB.states:
        raise ValueError(f"must be one of {', '.join(JOB.states)}")
    return text


def a_kind(text: str) -> str:
    if text not in File.Kind.values:
        raise ValueError(f"must be one of {', '.join(File.Kind.values)}")
    return text


def a_name(text: str) -> str:
    if not 0 < len(text) <= 100 or "\0" in text:
        raise ValueError("must be a name")
    return text


def a_time(text: str) -> datetime:
    moment = parse_datetime(text.replace(" ", "+"))  # an unescaped + arrives as a space
    if moment is None or moment.tzinfo is None:
        raise ValueError("must be a time with its zone, as 2030-01-31T12:00:00Z")
    if not EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        raise ValueError(f"must lie between the years {EARLIEST_YEAR} and {LATEST_YEAR}")
    return moment


def a_page_size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 3 or not 1 <= int(text) <= LARGEST_PAGE:
        raise ValueError(f"must be from 1 to {LARGEST_PAGE}")
    return int(text)


def a_version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError("must be a version of the job, a whole number")
    return int(text)


def a_wait(text: str) -> float:
    """Seconds, cut to the longest wait."""
    seconds = float(text) if len(text) <= 10 else math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("must be a number of seconds")
    return min(seconds, LONGEST_WAIT_SECONDS)


def a_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def a_tag(header: str | None) -> int | None:
    """The version in an If-Match header; None when it is absent or matches any. Raises Malformed."""
    if header is None or header.strip() == "*":
        return None
    digits = header.strip().removeprefix("W/").strip('"')
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise Malformed('If-Match must be one ETag of the job, as "7"')
    return int(digits)


def _digest(tenant_id: int, filters: Mapping[str, Any]) -> str:
    content = json.dumps([tenant_id, sorted(filters.items())], default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
