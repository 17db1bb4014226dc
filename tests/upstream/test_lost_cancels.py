"""An adapter that loses a cancel, as asyncio.wait_for does before Python 3.12 when both come at once, is cancelled again."""

import asyncio
from dataclasses import replace

import pytest

from tests.upstream.test_http import make_call
from tests.upstream.test_loop import Ledger, MakeLoop, ledger, make_loop, until
from upstream.calls import Call, Outcome

__all__ = ["ledger", "make_loop"]


class Losing:
    """Its work goes on after the first cancel."""

    def __init__(self) -> None:
        self.lost = 0

    async def submit(self, _call: Call, _repeat: bool) -> Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.lost += 1
        await asyncio.sleep(60)
        raise AssertionError("it was never cancelled")

    async def close(self) -> None: ...


@pytest.mark.parametrize("whence", ["its lease", "a stop"])
def test_a_cancel_that_is_lost_is_said_again(ledger: Ledger, make_loop: MakeLoop, whence: str) -> None:
    loop, losing = make_loop(1.0), Losing()
    loop._adapters["losing"] = losing
    call = make_call("http://127.0.0.1:9")
    loop.start(1, replace(call, upstream={**call.upstream, "adapter": "losing"}))
    if whence == "its lease":
        ledger.lost = {1}
        until(lambda: 1 in ledger.outcomes)
    else:
        until(lambda: loop._calls[1].begun)
        assert loop.stop() == 0
    assert ledger.outcomes[1].error_code == ("lease_lost" if whence == "its lease" else "worker_stopped")
    assert losing.lost == 1
