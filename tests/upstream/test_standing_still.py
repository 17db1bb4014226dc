"""A process that stands still while its calls are being connected, beyond its lease: it sends none of them when it goes on."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.upstream.test_http import make_call
from tests.upstream.test_loop import Ledger, MakeLoop, ledger, make_loop, until

__all__ = ["ledger", "make_loop"]
CALLS = 24
LEASE_SECONDS = 2.0
# The kernel asks anew after one second, and after three: one of these is while nobody is there to use the connection.
STANDS_SECONDS = 3.0


@pytest.fixture
def crowded() -> Iterator[list[socket.socket]]:
    """Listeners with a full queue: who connects to them waits until somebody is accepted."""
    with ExitStack() as closing:
        listeners = []
        for _ in range(CALLS):
            listener = closing.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            closing.enter_context(socket.socket()).connect(listener.getsockname())
            listeners.append(listener)
        yield listeners


def fails() -> None:
    """Whoever stands still renews nothing."""
    raise RuntimeError("the database is away")


def test_a_call_that_is_being_connected_is_not_sent_after_its_lease(
    crowded: list[socket.socket], ledger: Ledger, make_loop: MakeLoop
) -> None:
    ledger.renewing = fails
    loop = make_loop(LEASE_SECONDS)
    for key, listener in enumerate(crowded):
        loop.start(key, make_call(f"http://127.0.0.1:{listener.getsockname()[1]}"))
    time.sleep(0.3)
    assert loop._loop is not None
    stands = threading.Event()
    loop._loop.call_soon_threadsafe(lambda: (stands.set(), time.sleep(STANDS_SECONDS)))
    assert stands.wait(5)
    accepted = [listener.accept()[0] for listener in crowded]  # makes room for the calls
    until(lambda: len(ledger.outcomes) == CALLS)
    assert {outcome.error_code for outcome in ledger.outcomes.values()} == {"lease_lost"}
    received = []
    for listener in crowded:
        listener.settimeout(0.2)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            connection.settimeout(2)
            received.append(connection.recv(100))
    for one in accepted:
        one.close()
    assert received, "no connection came about, so nothing was tried"
    assert received == [b""] * len(received)


def test_a_call_that_has_not_begun_when_its_lease_is_over_is_told_of(ledger: Ledger, make_loop: MakeLoop) -> None:
    """The process stands still between the making of a call's task and its first step, at which it would be sent."""
    loop = make_loop(LEASE_SECONDS)
    loop.start(0, make_call("http://127.0.0.1:9"))
    until(lambda: 0 in ledger.outcomes)
    inner = loop._loop
    assert inner is not None

    def start_and_stand_still() -> None:
        loop.start(1, make_call("http://127.0.0.1:9"))
        inner.call_soon(time.sleep, STANDS_SECONDS)

    ledger.renewing = fails
    inner.call_soon_threadsafe(start_and_stand_still)
    until(lambda: 1 in ledger.outcomes)
    assert (ledger.outcomes[1].verdict, ledger.outcomes[1].error_code) == ("not_executed", "lease_lost")
