"""The sweep: each second, in whichever living process gets the lock, it does what signals missed and what time brings.

It needs neither Redis nor a worker's slot. Steps that make upstream calls are swept by each process that makes calls,
without the lock: their verbs are compare-and-set.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from prometheus_client import Counter, Histogram
from structlog.contextvars import bound_contextvars

from jobs import calls, fetcher, late, redrives, reviews, transitions
from jobs.flow import FLOW, Arguments, Step
from jobs.outage import DATABASE_AWAY, Outage
from pool import transitions as sessions
from statemachine.crashpoints import crashpoint

logger = logging.getLogger(__name__)
LOCK = 0x6265727468  # "berth" in ASCII: the advisory lock of the sweep
STOP_SECONDS = 5
MOST_BATCHES = 20  # of one pool in one sweep, so that no pool starves the others

_database = Outage(logger, "The database", "the next sweep tries again")

swept = Counter("berth_swept", "Wake-ups the sweep did itself.", ["task"])
seconds = Histogram("berth_sweep_seconds", "Duration of a sweep.")


def sweep() -> bool:
    """One sweep over the table; False when another process is at it."""
    with _alone() as alone:
        if alone:
            with seconds.time():
                _run([step for step in FLOW if not step.needs_calls])
    return alone


def sweep_calls() -> None:
    """The steps that send calls, for a process that makes them."""
    _run([step for step in FLOW if step.needs_calls])


class Sweeper(threading.Thread):
    """Sweeps each SWEEP_SECONDS until stopped; a failure is logged and the next sweep tries again."""

    def __init__(self, *, with_calls: bool = False) -> None:
        super().__init__(name="sweeper", daemon=True)
        self._with_calls = with_calls
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(settings.SWEEP_SECONDS):
            begun = time.monotonic()
            if settings.ALIVE_FILE:
                Path(settings.ALIVE_FILE).touch()
            try:
                if self._with_calls:
                    sweep_calls()
                sweep()
            except DATABASE_AWAY as error:
                _database.noted(error)
            except Exception:  # the thread must outlive whatever one sweep met
                logger.exception("sweep failed; again in %s s", settings.SWEEP_SECONDS)
            finally:
                connection.close()
            _database.over(since=begun)

    def stop(self) -> None:
        """Ends the thread after the sweep it is in; waits for that, but not for ever."""
        self._stopped.set()
        self.join(STOP_SECONDS)


def _assign(pool_id: int) -> None:
    for _ in range(MOST_BATCHES):
        if transitions.assign(pool_id) < transitions.BATCH:
            return


_VERBS: dict[str, Callable[..., Any]] = {
    "unassign": transitions.unassign,
    "doubt": transitions.doubt,
    "verify": calls.verify,
    "cancel_upstream": calls.cancel_upstream,
    "fetch": fetcher.fetch,
    "finish": transitions.finish,
    "expire": transitions.expire,
    "release": sessions.release,
    "replace_probes": sessions.replace_probes,
    "come_due": transitions.come_due,
    "afford": transitions.afford,
    "promote": transitions.promote,
    "assign": _assign,
    "dispatch": calls.dispatch,
    "book_late": late.book,
    "review": reviews.review,
    "redrive": redrives.drive,
}


def _run(steps: list[Step]) -> None:
    for step in steps:
        for arguments in _missed(step):
            crashpoint("sweep.found")
            try:
                with bound_contextvars(task=step.task):
                    _VERBS[step.task](*arguments)
                crashpoint("sweep.done")
                swept.labels(step.task).inc()
            except DATABASE_AWAY as error:
                _database.noted(error)
            except Exception:  # one pool, or one set, that fails must not keep the others from their work
                logger.exception("sweep: %s failed", step.task, extra={"task": step.task})


def _missed(step: Step) -> list[Arguments]:
    try:
        return list(step.missed())
    except DATABASE_AWAY as error:
        _database.noted(error)
        return []
    except Exception:  # nor must a question that fails
        logger.exception("sweep: what to %s is not known", step.task)
        return []


@contextmanager
def _alone() -> Iterator[bool]:
    """Holds the sweep's lock in a transaction on a connection of its own, so that each verb has its own transaction."""
    keeper = connection.copy()
    try:
        keeper.set_autocommit(False)
        with keeper.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            yield cursor.fetchone()[0]
        keeper.rollback()
    finally:
        keeper.close()
