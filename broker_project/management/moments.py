"""Times on the command line."""

from datetime import UTC, datetime

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime


def moment(text: str) -> datetime:
    """A time as `2030-01-31T12:00:00Z`; of UTC where it names no zone. Raises CommandError."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"{text!r} is no time; write it as 2030-01-31T12:00:00Z")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
