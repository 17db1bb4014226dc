"""How long this process waits for an answer of the database: above what the server itself allows a statement.

A server that is stopped, or that a network swallows, never answers, and nothing on its side ends the wait. Whoever raises
the server's `statement_timeout` is patient for as long.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

USUAL_SECONDS = 40.0  # statement_timeout is 30 s, see the settings
_seconds: ContextVar[float] = ContextVar("berth_patience", default=USUAL_SECONDS)


def seconds() -> float:
    """The longest wait for one answer; may be infinite."""
    return _seconds.get()


@contextmanager
def patient(longest_seconds: float = math.inf) -> Iterator[None]:
    """Inside, one answer may take so long."""
    token = _seconds.set(longest_seconds)
    try:
        yield
    finally:
        _seconds.reset(token)
