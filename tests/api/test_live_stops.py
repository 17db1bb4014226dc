"""Live ends also when what listens to Redis loses a cancel, as asyncio.wait_for does before Python 3.12."""

import asyncio
from typing import Any

import pytest
from redis.asyncio.client import PubSub

from broker_project import waiting
from broker_project.waiting import Waiting


def test_a_listener_that_loses_a_cancel_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cancels: list[int] = []
    hears = asyncio.Event()

    async def get_message(_: PubSub, **_said: Any) -> None:
        hears.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancels.append(1)
            if len(cancels) > 1:
                raise

    async def story() -> None:
        live = Waiting()
        live.start()
        await hears.wait()
        await live.stop()

    monkeypatch.setattr(PubSub, "get_message", get_message)
    monkeypatch.setattr(waiting, "CANCEL_SECONDS", 0.05)
    asyncio.run(asyncio.wait_for(story(), 20))
    assert len(cancels) == 2
