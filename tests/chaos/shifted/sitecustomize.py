"""Python loads this by itself where PYTHONPATH names this folder: the wall clock is CLOCK_SHIFT_SECONDS away from the truth.

Only what Python itself tells of the time of day: `time.time`, `time.time_ns` and the present of `datetime`. The monotonic
clock goes on, as it does when an operator, or a time server, sets a clock.
"""

import datetime
import os
import time

_SECONDS = float(os.environ.get("CLOCK_SHIFT_SECONDS", "0"))
_true_time, _true_time_ns, _Datetime = time.time, time.time_ns, datetime.datetime


class _Kind(type):
    """What C code makes, e.g. a database driver, is no instance of a class of ours, and has to count as one."""

    def __instancecheck__(cls, each: object) -> bool:
        return isinstance(each, _Datetime)

    def __subclasscheck__(cls, each: type) -> bool:
        return issubclass(each, _Datetime)


class _Shifted(_Datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Datetime:
        return _Datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> _Datetime:
        return _Datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


if _SECONDS:
    time.time = lambda: _true_time() + _SECONDS
    time.time_ns = lambda: _true_time_ns() + int(_SECONDS * 1e9)
    datetime.datetime = _Shifted  # type: ignore[misc]
