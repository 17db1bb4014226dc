"""Times on the command line."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils.dateparse import parse_datetime

FORM: Final = "as 2026-11-30T12:00:00Z or +01:00 in the place of Z; UTC where none is said, 00:00 of a day alone"
CLOCKS_DIFFER: Final = timedelta(seconds=60)  # a time may come from another machine


def past_moment(text: str) -> datetime:
    """A time as `2026-11-30T12:00:00Z`; of UTC where it names no zone. Raises ArgumentTypeError, also of one to come."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no time; write it {FORM}")
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    if found > datetime.now(UTC) + CLOCKS_DIFFER:
        raise ArgumentTypeError(f"{found.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC is still to come; write it {FORM}")
    return found
