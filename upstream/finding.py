"""Asking an upstream for dispatch keys of which we do not know whether they were ever sent."""

import asyncio
from collections.abc import Sequence
from typing import Final

from upstream.adapters import Adapter, adapter, ask
from upstream.calls import Call, Outcome

AT_ONCE: Final = 10
NO_TIME: Final = Outcome(
    over=False, verdict="unknown", error_code="no_time", error_message="there was no time left to ask"
)


def find(calls: Sequence[Call], deadline_seconds: float) -> list[Outcome]:
    """What the upstream knows of the key of each call, some asked at once; unknown where there was no time to ask.

    `over` and `not_executed` where it never took the key. Blocks; not for inside a transaction. Raises UnknownAdapterError.
    """
    return asyncio.run(_find_all(calls, deadline_seconds)) if calls else []


async def _find_all(calls: Sequence[Call], deadline_seconds: float) -> list[Outcome]:
    gate, end = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + deadline_seconds
    adapters: dict[str, Adapter] = {}

    async def one(call: Call) -> Outcome:
        name = call.upstream.get("adapter") or "http"
        if name not in adapters:
            adapters[name] = adapter(name)
        try:
            async with asyncio.timeout_at(end), gate:
                return await ask(adapters[name], "find", call)
        except TimeoutError:
            return NO_TIME

    try:
        return await asyncio.gather(*(one(call) for call in calls))
    finally:
        for each in adapters.values():
            await each.close()
