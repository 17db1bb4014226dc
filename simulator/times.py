"""Clock, durations as people write them (`200ms`, `2s`), and the latency of an execution."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass

LONGEST_SECONDS = 86_400.0
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")

# Stamps look like wall time but never jump: durations are differences of them.
_EPOCH_OFFSET = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the epoch, counted by the monotonic clock."""
    return _EPOCH_OFFSET + time.monotonic()


def seconds(value: object) -> float:
    """`"200ms"`, `"1.5s"`, `"2m"`, `"1h"`, or a number of seconds. ValueError for anything else."""
    if isinstance(value, str):
        match = DURATION.fullmatch(value)
        if match is None:
            raise ValueError(f"not a duration: {value!r} (write 200ms, 2s, 5m or 1h)")
        number = float(match[1]) * UNIT_SECONDS[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        raise ValueError(f"not a duration: {value!r}")
    if not 0 <= number <= LONGEST_SECONDS:
        raise ValueError(f"a duration must be between 0 and {LONGEST_SECONDS:.0f} seconds: {value!r}")
    return number


@dataclass(frozen=True)
class Latency:
    """How long an execution takes when neither the request nor a fault says it: drawn between two bounds."""

    text: str
    least_seconds: float
    most_seconds: float

    @classmethod
    def parse(cls, text: str) -> Latency:
        """`200ms` (fixed) or `uniform:100ms:300ms`."""
        kind, _, bounds = text.rpartition("uniform:")
        if bounds != text and not kind:
            least, _, most = bounds.partition(":")
            latency = cls(text, seconds(least), seconds(most))
        else:
            latency = cls(text, seconds(text), seconds(text))
        if latency.least_seconds > latency.most_seconds:
            raise ValueError(f"the first bound is above the second: {text!r}")
        return latency

    def draw(self, dice: random.Random) -> float:
        if self.least_seconds == self.most_seconds:
            return self.least_seconds
        return dice.uniform(self.least_seconds, self.most_seconds)
