"""Beside each worker that makes calls: what is due to be asked is asked four times a second, in the order of its time.

A message for each poll of each task would be the larger part of all messages; the state says what is due.
"""

import logging
import threading
import time

from django.db import connection

from jobs import calls
from jobs.outage import DATABASE_AWAY, Outage
from jobs.queries import missed

TICK_SECONDS = 0.25
MOST_IN_FLIGHT = 1_000  # calls of this process; those that hang are given up at their time-out, and make room
MOST_ROUNDS = 20
STOP_SECONDS = 5

logger = logging.getLogger(__name__)
_database = Outage(logger, "The database", "the next asking tries again")


def ask_due() -> int:
    """Asks what is due, as far as there is room for calls. Returns for how many jobs."""
    asked = 0
    for _ in range(MOST_ROUNDS):
        job_ids = missed.jobs_to_verify() if calls.in_flight() < MOST_IN_FLIGHT else []
        if job_ids:
            calls.verify(job_ids)
        asked += len(job_ids)
        if len(job_ids) < missed.MOST:
            break
    return asked


class Asker(threading.Thread):
    """Asks each TICK_SECONDS until stopped; a failure is logged, and the next time tries again."""

    def __init__(self) -> None:
        super().__init__(name="asker", daemon=True)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(TICK_SECONDS):
            begun = time.monotonic()
            try:
                ask_due()
            except DATABASE_AWAY as error:
                _database.noted(error)
            except Exception:  # the thread must outlive whatever one asking met
                logger.exception("asking failed; again in %s s", TICK_SECONDS)
            finally:
                connection.close()
            _database.over(since=begun)

    def stop(self) -> None:
        """Ends the thread after what it is at; waits for that, but not for ever."""
        self._stopped.set()
        self.join(STOP_SECONDS)
