"""An adapter that blocks the loop it runs on: its lease is renewed all the same, for heartbeats have a thread of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upstream.provider import Provider
from tests.upstream.test_http import make_call
from tests.upstream.test_loop import Ledger, MakeLoop, ledger, make_loop, until

__all__ = ["ledger", "make_loop"]
LEASE_SECONDS = 0.6
ADAPTER = """
import time
from pathlib import Path
from upstream.calls import Outcome

class Blocking:
    async def submit(self, call, repeat):
        while not Path(__file__).with_name("let go").exists():
            time.sleep(0.01)
        return Outcome(over=True, verdict="succeeded", status=200, units=None)

    async def close(self):
        pass
"""


@pytest.fixture
def blocking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an adapter that is installed for this test, as others are: by its entry point. Blocks until `let go`."""
    told = tmp_path / "blocking-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: blocking\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[berth.adapters]\nblocking = blocking_adapter:Blocking\n")
    (tmp_path / "blocking_adapter.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(tmp_path)
    yield "blocking"
    (tmp_path / "let go").touch()


def test_a_lease_is_renewed_though_an_adapter_blocks_the_loop(
    provider: Provider,
    ledger: Ledger,
    make_loop: MakeLoop,
    blocking: str,
    tmp_path: Path,
) -> None:
    loop = make_loop(LEASE_SECONDS)
    call = make_call(provider.url)
    call.upstream["adapter"] = blocking
    loop.start(1, call)
    until(lambda: len(ledger.renewed) * LEASE_SECONDS / 3 > LEASE_SECONDS)
    assert ledger.outcomes == {}, "it is still blocked, and its lease would be over"
    (tmp_path / "let go").touch()
    assert loop.drain(5) == 0
    assert ledger.outcomes[1].verdict == "succeeded"
