"""Hands outcomes in, in small batches, on one thread. What cannot be recorded is tried again, never dropped.

Those that have something to be stored first are recorded one by one on threads of their own: a storage that is away holds up
none of the others.
"""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from upstream.calls import Outcome

K = TypeVar("K")

MAX_BATCH: Final = 100
APART_AT_ONCE: Final = 4
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
# After so many failures in a row it is not the rows' fault: the rest of the batch waits, untried.
GIVE_UP_AFTER: Final = 3
# An outcome that cannot be written as it is, tried so often, is told without what it says.
MOST_UNWRITABLE: Final = 5

logger = logging.getLogger(__name__)


class UnwritableError(Exception):
    """It is the outcomes' own fault that they could not be recorded."""


@dataclass(slots=True, eq=False)
class _Item(Generic[K]):
    key: K
    outcome: Outcome
    failures: int = 0  # of this one alone
    due: float = 0.0  # the monotonic time before which it is not tried again
    unwritable: int = 0  # of the failures, those by its own fault


class OutcomeWriter(Generic[K]):
    """`on_outcomes` records a batch and gives the keys of those it left to `on_apart`, which records one."""

    def __init__(
        self,
        on_outcomes: Callable[[list[tuple[K, Outcome]]], Collection[K] | None],
        recorded: Callable[[K], None],
        on_apart: Callable[[K, Outcome], None] | None = None,
    ) -> None:
        self._on_outcomes = on_outcomes
        self._on_apart = on_apart
        self._recorded = recorded
        self._apart: queue.SimpleQueue[_Item[K] | None] = queue.SimpleQueue()
        self._apart_threads = 0
        self._queue: queue.SimpleQueue[_Item[K] | None] = queue.SimpleQueue()
        self._later: list[tuple[float, int, _Item[K]]] = []  # due, order, what failed
        self._order = itertools.count()

    def put(self, key: K, outcome: Outcome) -> None:
        self._queue.put(_Item(key, outcome))

    def stop(self) -> None:
        self._queue.put(None)
        for _ in range(APART_AT_ONCE):
            self._apart.put(None)

    def run(self) -> None:
        """Until stop(): everything queued at the moment, at most MAX_BATCH, and what failed before and is due again."""
        while True:
            batch, stopped = self._next_batch()
            untried = [item for item in batch if not item.failures]
            alone = [item for item in batch if item.failures]
            if untried and not self._record(untried):
                alone += untried
            self._one_by_one(alone)
            if stopped:
                return

    def _next_batch(self) -> tuple[list[_Item[K]], bool]:
        batch: list[_Item[K]] = []
        now = time.monotonic()
        while self._later and self._later[0][0] <= now and len(batch) < MAX_BATCH:
            batch.append(heapq.heappop(self._later)[2])
        while len(batch) < MAX_BATCH:
            wait = None if not self._later else max(self._later[0][0] - time.monotonic(), 0)
            try:
                item = self._queue.get_nowait() if batch else self._queue.get(timeout=wait)
            except queue.Empty:
                break
            if item is None:
                return batch, True
            if item.due > now:
                self._put_off(item)
            else:
                batch.append(item)
        return batch, False

    def _one_by_one(self, items: list[_Item[K]]) -> None:
        failures_in_a_row = 0
        for item in items:
            if failures_in_a_row >= GIVE_UP_AFTER:
                item.due = time.monotonic() + FIRST_PAUSE_SECONDS
                self._put_off(item)
            elif self._record([item]):
                failures_in_a_row = 0
            else:
                failures_in_a_row += 1
                _failed(item)
                self._put_off(item)

    def _record(self, items: list[_Item[K]]) -> bool:
        try:
            apart = self._on_outcomes([(item.key, item.outcome) for item in items]) or ()
        except Exception as error:  # whatever it is, the outcomes are kept and tried again
            logger.exception("%d outcomes could not be recorded", len(items))
            if isinstance(error, UnwritableError) and len(items) == 1:
                _bared(items[0])
            return False
        for item in items:
            if item.key in apart:
                self._put_apart(item)
            else:
                self._recorded(item.key)
        return True

    def _put_apart(self, item: _Item[K]) -> None:
        self._apart.put(item)
        if self._apart_threads < APART_AT_ONCE:
            self._apart_threads += 1
            threading.Thread(target=self._record_apart, name="berth-outcomes-apart", daemon=True).start()

    def _record_apart(self) -> None:
        while (item := self._apart.get()) is not None:
            try:
                assert self._on_apart is not None  # noqa: S101 - whoever leaves some to it has given it
                self._on_apart(item.key, item.outcome)
            except Exception as error:  # as in _record
                logger.exception("an outcome with something to be stored could not be recorded")
                if isinstance(error, UnwritableError):
                    _bared(item)
                _failed(item)
                self._queue.put(item)
            else:
                self._recorded(item.key)

    def _put_off(self, item: _Item[K]) -> None:
        heapq.heappush(self._later, (item.due, next(self._order), item))


def _failed(item: _Item[K]) -> None:
    item.failures += 1
    item.due = time.monotonic() + min(FIRST_PAUSE_SECONDS * 2 ** min(item.failures, 10), MAX_PAUSE_SECONDS)


def _bared(item: _Item[K]) -> None:
    """What can never be written must not keep its session for ever: its outcome is unknown then."""
    item.unwritable += 1
    if item.unwritable == MOST_UNWRITABLE:
        item.outcome = Outcome(
            over=item.outcome.over,
            verdict="unknown",
            error_code="unwritable",
            error_message="what the upstream said could not be stored",
        )
