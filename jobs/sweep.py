"""The sweep: each second, in whichever living process gets the lock, it does what signals missed and what time brings.

It needs neither Redis nor a worker's slot. Steps that make upstream calls are swept by each process that makes calls,
without the lock: their verbs are compare-and-set.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from prometheus_client import Counter, Histogram
from structlog.contextvars import bound_contextvars

from jobs import calls, fetcher, late, redrives, reopening, reviews, suspecting, sweep_order, transitions
from jobs.flow import FLOW, Arguments, Step
from jobs.outage import DATABASE_AWAY, Outage
from jobs.sweep_order import Place
from pool import transitions as sessions
from statemachine.crashpoints import crashpoint

logger = logging.getLogger(__name__)
LOCK = 0x6265727468  # "berth" in ASCII: the advisory lock of the sweep
STOP_SECONDS = 5
ASK_SECONDS = 5.0  # between two signs of life of the lock; the server ends a transaction that idles for 30 s
MOST_BATCHES = 20  # of one pool in one sweep, so that no pool starves the others

_database = Outage(logger, "The database", "the next sweep tries again")

swept = Counter("berth_swept", "Wake-ups the sweep did itself.", ["task"])
seconds = Histogram("berth_sweep_seconds", "Duration of a sweep.")


def _always() -> bool:
    return True


def sweep(may_go_on: Callable[[], bool] = _always) -> bool:
    """One sweep over the table; False when another process is at it. Ends early when it may not go on.

    Also when a step took so long that it has lost its lock by it; the next sweep of this process goes on after that.
    """
    with _alone() as is_alone:
        if is_alone is None:
            return False
        with seconds.time():
            steps = [step for step in FLOW if not step.needs_calls]
            _left.at = _run(steps, lambda: may_go_on() and is_alone(), _left.at)
    return True


def sweep_calls(may_go_on: Callable[[], bool] = _always) -> None:
    """The steps that send calls, for a process that makes them."""
    _run([step for step in FLOW if step.needs_calls], may_go_on)


class _Left:
    """Where the last sweep of this process was when it ended early; None: it came to its end."""

    at: Place | None = None


_left = _Left()


class Sweeper(threading.Thread):
    """Sweeps each SWEEP_SECONDS until stopped; a failure is logged and the next sweep tries again."""

    def __init__(self, *, with_calls: bool = False) -> None:
        super().__init__(name="sweeper", daemon=True)
        self._with_calls = with_calls
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(settings.SWEEP_SECONDS):
            begun = time.monotonic()
            try:
                if settings.ALIVE_FILE:
                    Path(settings.ALIVE_FILE).touch()
                if self._with_calls:
                    sweep_calls(self._may_go_on)
                sweep(self._may_go_on)
            except DATABASE_AWAY as error:
                _database.noted(error)
            except Exception:  # the thread must outlive whatever one sweep met
                logger.exception("sweep failed; again in %s s", settings.SWEEP_SECONDS)
            finally:
                connection.close()
            _database.over(since=begun)

    def begin_to_stop(self) -> None:
        """From now on nothing is begun: a process that is to end assigns no job that nobody might send."""
        self._stopped.set()

    def stop(self) -> None:
        """Ends the thread after the step it is in; waits for that, but not for ever."""
        self.begin_to_stop()
        self.join(STOP_SECONDS)

    def _may_go_on(self) -> bool:
        return not self._stopped.is_set()


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
    "inquire": suspecting.inquire,
    "reopen": reopening.reopen,
    "come_due": transitions.come_due,
    "afford": transitions.afford,
    "promote": transitions.promote,
    "assign": _assign,
    "dispatch": calls.dispatch,
    "book_late": late.book,
    "review": reviews.review,
    "redrive": redrives.drive_due,
}


def _run(steps: list[Step], may_go_on: Callable[[], bool] = _always, after: Place | None = None) -> Place | None:
    """What it did last when it may not go on, else None."""
    done = after
    for step, arguments in sweep_order.of(steps, _missed, after):
        if not may_go_on():
            return done
        _do(step, arguments)
        done = Place(step, arguments[:1])
    return None


def _do(step: Step, arguments: Arguments) -> None:
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
def _alone() -> Iterator[Callable[[], bool] | None]:
    """Holds the sweep's lock in a transaction on a connection of its own, so that each verb has its own transaction.

    Gives whether it is still held, None when it was not got. A sweeper that is stopped or cut off from the server must not
    keep the lock, so the server ends a transaction that idles; asking between two verbs says that this one does not.
    """
    keeper = connection.copy()
    asked_at = time.monotonic()

    def is_held() -> bool:
        nonlocal asked_at
        now = time.monotonic()
        if now - asked_at < ASK_SECONDS:
            return True
        try:
            with keeper.cursor() as cursor:
                cursor.execute("SELECT 1")
        except DATABASE_AWAY:  # the next statement says whether the database is
            logger.warning(
                "the sweep lost its lock in %.0f s without a sign of life; the next one goes on", now - asked_at
            )
            return False
        asked_at = now
        return True

    try:
        keeper.set_autocommit(False)
        with keeper.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            got = cursor.fetchone()[0]
        yield is_held if got else None
        with suppress(*DATABASE_AWAY):  # then it has ended
            keeper.rollback()
    finally:
        keeper.close()
