"""Quantities as they are written in the configuration: durations, rates and sizes, each with its unit."""

import re
from typing import NamedTuple

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(_NUMBER + r"\s*(ms|s|m|h|d)")
_RATE = re.compile(r"(\d+)\s*/\s*(\d*)\s*(second|minute|hour|day|s|m|h|d)")
_SIZE = re.compile(_NUMBER + r"\s*(B|kB|MB|GB|KiB|MiB|GiB)")

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PERIODS = _MILLISECONDS | {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Rate(NamedTuple):
    limit: int
    per_ms: int


def duration_ms(text: str) -> int:
    """`500ms`, `2s`, `1.5s`, `5m`, `1h`, `1d` in milliseconds. A bare number is refused: nobody knows its unit."""
    found = _DURATION.fullmatch(_stripped(text))
    if found is None:
        raise ValueError(f"{text!r} is not a duration; write a number and its unit: 500ms, 2s, 5m, 1h")
    return _whole(float(found[1]) * _MILLISECONDS[found[2]], text, "milliseconds")


def rate(text: str) -> Rate:
    """`600/minute` or `10/5s`: how many in how long."""
    found = _RATE.fullmatch(_stripped(text))
    if found is None:
        raise ValueError(f"{text!r} is not a rate; write a whole number per second, minute, hour or day: 600/minute")
    limit, per_ms = int(found[1]), int(found[2] or 1) * _PERIODS[found[3]]
    if limit < 1 or per_ms < 1:
        raise ValueError(f"{text!r} is not a rate; it must allow at least one")
    return Rate(limit, per_ms)


def size_bytes(text: str) -> int:
    """`256kB` is 256,000 bytes, `256KiB` 262,144."""
    found = _SIZE.fullmatch(_stripped(text))
    if found is None:
        raise ValueError(f"{text!r} is not a size; write a number and its unit: 512B, 256kB, 10MB, 1GiB")
    return _whole(float(found[1]) * _BYTES[found[2]], text, "bytes")


def duration_text(ms: int) -> str:
    """As it could be written, in the largest unit that fits: 300_000 is `5m`."""
    return _in_units(ms, _MILLISECONDS)


def rate_text(limit: int, per_ms: int) -> str:
    """As it could be written: 600 in 60_000 ms are `600/minute`."""
    words = {ms: word for word, ms in _PERIODS.items() if word not in _MILLISECONDS}
    return f"{limit}/{words.get(per_ms) or duration_text(per_ms)}"


def size_text(size: int) -> str:
    """As it could be written: 256_000 is `256kB`."""
    return _in_units(size, {unit: factor for unit, factor in _BYTES.items() if "i" not in unit})


def _in_units(number: int, units: dict[str, int]) -> str:
    fitting = [unit for unit, factor in units.items() if number and number % factor == 0]
    unit = max(fitting, key=units.__getitem__, default=min(units, key=units.__getitem__))
    return f"{number // units[unit]}{unit}"


def _stripped(text: object) -> str:
    return text.strip() if isinstance(text, str) else ""


def _whole(number: float, text: str, unit: str) -> int:
    result = round(number)
    if abs(result - number) > 1e-6:
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return result


def counted(number: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
