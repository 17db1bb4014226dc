"""Hands outcomes in, in small batches, on one thread. What cannot be recorded is tried again, never dropped."""

import heapq
import itertools
import logging
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from upstream.calls import Outcome

K = TypeVar("K")

MAX_BATCH: Final = 100
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
    unwritable: int = 0  # of them by its own fault


class OutcomeWriter(Generic[K]):
    def __init__(self, on_outcomes: Callable[[list[tuple[K, Outcome]]], None], recorded: Callable[[K], None]) -> None:
        self._on_outcomes = on_outcomes
        self._recorded = recorded
        self._queue: queue.SimpleQueue[_Item[K] | None] = queue.SimpleQueue()
        self._later: list[tuple[float, int, _Item[K]]] = []  # due, order, what failed
        self._order = itertools.count()

    def put(self, key: K, outcome: Outcome) -> None:
        self._queue.put(_Item(key, outcome))

    def stop(self) -> None:
        self._queue.put(None)

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
        wait = None if not self._later else max(self._later[0][0] - now, 0)
        while len(batch) < MAX_BATCH:
            try:
                item = self._queue.get_nowait() if batch else self._queue.get(timeout=wait)
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False

    def _one_by_one(self, items: list[_Item[K]]) -> None:
        failures_in_a_row = 0
        for item in items:
            if failures_in_a_row >= GIVE_UP_AFTER:
                self._retry(item, FIRST_PAUSE_SECONDS)
            elif self._record([item]):
                failures_in_a_row = 0
            else:
                failures_in_a_row += 1
                item.failures += 1
                self._retry(item, min(FIRST_PAUSE_SECONDS * 2**item.failures, MAX_PAUSE_SECONDS))

    def _record(self, items: list[_Item[K]]) -> bool:
        try:
            self._on_outcomes([(item.key, item.outcome) for item in items])
        except Exception as error:  # whatever it is, the outcomes are kept and tried again
            logger.exception("%d outcomes could not be recorded", len(items))
            if isinstance(error, UnwritableError) and len(items) == 1:
                _bared(items[0])
            return False
        for item in items:
            self._recorded(item.key)
        return True

    def _retry(self, item: _Item[K], pause_seconds: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + pause_seconds, next(self._order), item))


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
