"""Ctrl-C and SIGTERM, turned into a question that the supervisor asks between its steps."""

import signal
import time
from types import FrameType, TracebackType
from typing import Any, Self

from broker_project.supervisor.errors import StopRequested

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IMPATIENT_AFTER_SECONDS = 1.0


class StopSignals:
    """Handlers only take a note: a child half started when the signal comes is never lost."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._impatient = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _NUMBERS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises StopRequested once a signal has come."""
        if self._first is not None:
            raise StopRequested

    def hurry(self) -> bool:
        """Whether Ctrl-C was pressed again: the person does not want to wait for work in flight."""
        return self._impatient

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._first is None:
            self._first = time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - self._first > IMPATIENT_AFTER_SECONDS:
            self._impatient = True
