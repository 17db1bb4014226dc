"""Tells a caller's address that its task has ended; late, twice, early or out of order where a fault says so."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

from simulator.answers import running_body, task_body
from simulator.executions import Execution

TIMEOUT_SECONDS = 5.0
# Like a real provider: tried again a few times, then given up; for longer where the receiver asks for it.
PAUSES_SECONDS = (0.5, 2.0)
PATIENCE_SECONDS = 300.0


class Callbacks:
    def __init__(self) -> None:
        self._client: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, execution: Execution) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(execution))
        execution.callback_task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    async def _deliver(self, execution: Execution) -> None:
        fault = execution.fault
        await asyncio.sleep(fault.late_callback)
        for _ in range(fault.dup_callback):
            await self._post(execution.ask.callback_url, task_body(execution))
        if fault.out_of_order:
            await self._post(execution.ask.callback_url, running_body(execution))

    async def _post(self, url: str, body: dict[str, Any]) -> None:
        if self._client is None:
            self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        headers = {"Content-Type": "application/json"}
        pauses, end = list(PAUSES_SECONDS), time.monotonic() + PATIENCE_SECONDS
        while True:
            asked_for = None
            try:
                async with self._client.post(url, data=json.dumps(body), headers=headers) as response:
                    if response.status < 300:
                        return
                    asked_for = _asked_for(response)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass  # A receiver that is away or a URL that is none: both are the caller's affair.
            if asked_for is not None and time.monotonic() + asked_for < end:
                await asyncio.sleep(asked_for)
            elif pauses:
                await asyncio.sleep(pauses.pop(0))
            else:
                return


def _asked_for(response: aiohttp.ClientResponse) -> float | None:
    """Seconds after which a receiver that cannot take it now wants it again."""
    said = response.headers.get("Retry-After", "")
    return max(float(said), 0.1) if response.status == 503 and said.isascii() and said.isdigit() else None
