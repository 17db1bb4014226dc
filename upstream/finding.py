"""Asking an upstream for dispatch keys of which we do not know whether they were ever sent."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from upstream.adapters import Adapter, adapter, ask
from upstream.calls import Call, Outcome

AT_ONCE: Final = 10  # of one account: one that is slow keeps no other waiting
IN_ALL: Final = 200
NO_TIME: Final = Outcome(
    over=False, verdict="unknown", error_code="no_time", error_message="there was no time left to ask"
)
logger = logging.getLogger(__name__)


def find(calls: Sequence[Call], deadline_seconds: float) -> list[Outcome]:
    """What the upstream knows of the key of each call, some asked at once; unknown where there was no time to ask, or where
    its adapter is missing or fails (`adapter_error`).

    `over` and `not_executed` where it never took the key. Blocks; not for inside a transaction.
    """
    return asyncio.run(_Round(deadline_seconds).find_all(calls)) if calls else []


class _Round:
    def __init__(self, deadline_seconds: float) -> None:
        self._seconds = deadline_seconds
        self._adapters: dict[str, Adapter] = {}
        self._gates: defaultdict[tuple[str, str], asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._in_all = asyncio.Semaphore(IN_ALL)
        self._complained: set[tuple[str, str]] = set()

    async def find_all(self, calls: Sequence[Call]) -> list[Outcome]:
        self._end = asyncio.get_running_loop().time() + self._seconds
        try:
            return await asyncio.gather(*(self._one(call) for call in calls))
        finally:
            for name, each in self._adapters.items():
                try:
                    await each.close()
                except Exception:  # what was answered is not lost for it
                    logger.exception("adapter %s could not be closed", name)

    async def _one(self, call: Call) -> Outcome:
        name = call.upstream.get("adapter") or "http"
        try:
            if name not in self._adapters:
                self._adapters[name] = adapter(name)
            async with asyncio.timeout_at(self._end), self._gates[call.base_url, call.account["name"]], self._in_all:
                return await ask(self._adapters[name], "find", call)
        except TimeoutError:
            return NO_TIME
        except Exception as error:  # one adapter that fails must not throw away what the others were told
            said = (name, type(error).__name__)
            if said not in self._complained:  # once a round
                self._complained.add(said)
                logger.exception("adapter %s could not ask for a key", name)
            return Outcome(over=False, verdict="unknown", error_code="adapter_error", error_message=str(error)[:500])
