"""Telling that something we depend on fails, without flooding the log: at first, now and then, and when it works again."""

import logging
import threading
import time

from django.db import InterfaceError, OperationalError

REPEAT_SECONDS = 10.0
# The database does not answer, not in time, or has no room: no mistake of ours, so nobody needs a traceback.
DATABASE_AWAY = (OperationalError, InterfaceError)


class Outage:
    """One thing that may fail for a while. It tells a person `what` failed, and what is done `meanwhile`."""

    def __init__(self, logger: logging.Logger, what: str, meanwhile: str) -> None:
        self._logger, self._what, self._meanwhile = logger, what, meanwhile
        self._lock = threading.Lock()
        self._began: float | None = None
        self._told = self._noted = 0.0

    def noted(self, error: BaseException) -> None:
        """It failed. Tells the first time, and then at most once each REPEAT_SECONDS."""
        now = time.monotonic()
        with self._lock:
            self._noted = now
            if self._began is None:
                self._began = now
            elif now - self._told < REPEAT_SECONDS:
                return
            self._told = now
            lasted = now - self._began
        since = f" for {lasted:.0f} s" if lasted >= 1 else ""
        self._logger.warning("%s fails%s, %s: %s", self._what, since, self._meanwhile, in_one_line(error))

    def over(self, *, since: float = 0.0) -> None:
        """It works again; unless something was noted after the monotonic time `since`."""
        with self._lock:
            if self._began is None or self._noted >= since > 0:
                return
            lasted, self._began = time.monotonic() - self._began, None
        self._logger.warning("%s works again after %.0f s", self._what, lasted)


def in_one_line(error: BaseException) -> str:
    """What the error says first; its type when it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
