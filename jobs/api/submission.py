"""From the body of a submit to a `Request`: every field checked by hand, every fault named by its pointer."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.dateparse import parse_datetime

from credits.pricing import MAX_CREDITS, MICRO
from jobs.admission import InvalidField, Request
from jobs.api.refusals import InvalidFields
from statemachine.sql import now
from upstream.quantities import duration_ms

LOWEST_PRIORITY, HIGHEST_PRIORITY = -1000, 1000
MOST_ATTEMPTS = 100
FURTHEST = timedelta(days=366)
METADATA_BYTES = 16_384
COMES_LATER = ("group", "callback_url", "follows")

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class _Wrong(Exception):
    """A value that does not fit its field."""


def parse(body: Mapping[str, Any]) -> Request:
    """The request as the domain takes it. Raises InvalidFields with every fault found."""
    faults = [InvalidField(f"/{name}", _unknown(name)) for name in body if name not in _FIELDS]
    fields: dict[str, Any] = {}
    for name, read in _FIELDS.items():
        if body.get(name) is None:  # what is null was not said
            continue
        try:
            fields[name] = read(body[name])
        except _Wrong as error:
            faults.append(InvalidField(f"/{name}", str(error)))
    faults += [InvalidField(f"/{name}", "is required") for name in ("type", "payload") if body.get(name) is None]
    if faults:
        raise InvalidFields(faults)
    if "start_deadline" in fields:
        fields["start_deadline_ms"] = fields.pop("start_deadline")
    return Request(**fields)


def _unknown(name: str) -> str:
    if name in COMES_LATER:
        return "is not available in this version yet"
    return f"there is no such field; there are {', '.join(_FIELDS)}"


def _type(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise _Wrong("must be the name of a job type")
    return value


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise _Wrong("must be a whole number")
        if not least <= value <= most:
            raise _Wrong(f"must be from {least} to {most}")
        return int(value)

    return read


def _moment(value: Any) -> tuple[datetime, timedelta]:
    """A time, and how far ahead it lies by the database's clock."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise _Wrong("must be a time with its zone, as 2030-01-31T12:00:00Z")
    try:
        moment = parse_datetime(value.upper())
    except ValueError:
        moment = None
    if moment is None:
        raise _Wrong("must be a time that exists, as 2030-01-31T12:00:00Z")
    ahead = moment - now()
    if ahead > FURTHEST:
        raise _Wrong(f"must be within {FURTHEST.days} days")
    return moment, ahead


def _run_at(value: Any) -> datetime | None:
    """A time that has passed asks for nothing."""
    moment, ahead = _moment(value)
    return moment if ahead > timedelta(0) else None


def _start_deadline(value: Any) -> int:
    """Milliseconds from now, from a duration or a time."""
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        milliseconds = int(_moment(value)[1].total_seconds() * 1000)
    else:
        try:
            milliseconds = duration_ms(value)
        except (ValueError, OverflowError) as error:
            raise _Wrong("must be a duration, as 10m, or a time with its zone, as 2030-01-31T12:00:00Z") from error
    if not 0 < milliseconds <= FURTHEST.total_seconds() * 1000:
        raise _Wrong(f"must lie ahead, within {FURTHEST.days} days")
    return milliseconds


def _max_price(value: Any) -> int:
    """Micro-credits; what is below a micro-credit is dropped, so that the limit is never passed."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _Wrong('must be a number of credits, as 12.5 or "12.500000"')
    try:
        exact = Decimal(str(value))
    except InvalidOperation as error:
        raise _Wrong('must be a number of credits, as 12.5 or "12.500000"') from error
    if not exact.is_finite() or not 0 <= exact <= MAX_CREDITS:
        raise _Wrong(f"must be from 0 to {MAX_CREDITS} credits")
    return int(exact * MICRO)


def _metadata(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong("must be an object")
    if len(json.dumps(value, ensure_ascii=False).encode()) > METADATA_BYTES:
        raise _Wrong(f"must have at most {METADATA_BYTES} bytes")
    return value


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "type": _type,
    "payload": lambda value: value,
    "priority": _whole(LOWEST_PRIORITY, HIGHEST_PRIORITY),
    "run_at": _run_at,
    "start_deadline": _start_deadline,
    "max_price": _max_price,
    "max_attempts": _whole(1, MOST_ATTEMPTS),
    "metadata": _metadata,
}
