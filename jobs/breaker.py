"""A breaker for what carries hints: after one failure nobody waits for it again until it is known to answer."""

import logging
import threading
import time
from collections.abc import Callable

from jobs.outage import Outage

ASK_SECONDS = 1.0  # between two questions whether it is back

logger = logging.getLogger(__name__)


class Breaker:
    """Closed while all is well. `failed` opens it; a thread of its own then asks until `ask` raises nothing.

    So a commit pays for a failure at most once: those that come later neither try nor wait.
    """

    def __init__(self, what: str, ask: Callable[[], object]) -> None:
        self._what, self._ask = what, ask
        self._outage = Outage(logger, what, "the sweep does what hints would hurry")
        self._lock = threading.Lock()
        self._open = False
        self._asking: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether it may be used now."""
        if not self._open:
            return True
        if self._asking is None or not self._asking.is_alive():
            self._begin_to_ask()  # a fork took the state along, but not the thread
        return False

    def failed(self, error: BaseException) -> None:
        """Opens it."""
        self._open = True
        self._outage.noted(error)
        self._begin_to_ask()

    def close(self) -> None:
        """It answers: it may be used at once."""
        self._open = False
        self._outage.over()

    def _begin_to_ask(self) -> None:
        with self._lock:
            if self._asking is None or not self._asking.is_alive():
                name = f"asks {self._what}"
                self._asking = threading.Thread(target=self._ask_until_it_answers, name=name, daemon=True)
                self._asking.start()

    def _ask_until_it_answers(self) -> None:
        while self._open:
            time.sleep(ASK_SECONDS)
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001  whatever a client raises, it does not answer
                self._outage.noted(error)
            else:
                self.close()
