"""A filter for the log: what fails because the database or the broker fails is said in one line, and not again and again.

Each place of the code says it at most once in ten seconds; the next line tells how many were left out. A trace of such
a failure would only show our way to the server.
"""

import logging
import threading
import time

import redis
from kombu.exceptions import OperationalError as BrokerError

from jobs.outage import DATABASE_AWAY, REPEAT_SECONDS, in_one_line

FAILING = (*DATABASE_AWAY, redis.RedisError, BrokerError)
UNAVAILABLE = 503

Place = tuple[str, str, int]


class Damping(logging.Filter):
    """Lets everything else pass as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._told: dict[Place, float] = {}
        self._left_out: dict[Place, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        # What beat raises of its own is that it could not publish; to import it would cost every process time.
        if error is not None and (isinstance(error, FAILING) or type(error).__module__ == "celery.beat"):
            record.msg, record.args = "%s: %s", (_first_line(record), in_one_line(error))
            record.exc_info = record.exc_text = record.stack_info = None
        elif record.name != "django.request" or getattr(record, "status_code", None) != UNAVAILABLE:
            return True
        return self._passes(record)

    def _passes(self, record: logging.LogRecord) -> bool:
        place, now = (record.name, record.pathname, record.lineno), time.monotonic()
        with self._lock:
            if now - self._told.get(place, -REPEAT_SECONDS) < REPEAT_SECONDS:
                self._left_out[place] = self._left_out.get(place, 0) + 1
                return False
            self._told[place] = now
            left_out = self._left_out.pop(place, 0)
        if left_out:
            record.msg, record.args = "%s (and %s more like it)", (record.getMessage(), left_out)
        return True


def _first_line(record: logging.LogRecord) -> str:
    return (record.getMessage().splitlines() or [""])[0]
