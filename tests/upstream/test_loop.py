"""The call loop: many calls at once, leases kept and lost, outcomes recorded whatever happens to the recorder."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.upstream.provider import Provider
from tests.upstream.test_http import make_call
from upstream.calls import Outcome
from upstream.loop import CallLoop, NotAcceptingError


class Ledger:
    """What the loop is given: it records outcomes and renews leases, and fails when told to."""

    def __init__(self) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self.batches: list[int] = []
        self.recorded_twice: list[int] = []
        self.renewed: list[list[int]] = []
        self.lost: set[int] = set()
        self.fail_recording: Callable[[list[int]], bool] = lambda _: False
        self.renewing: Callable[[], None] = lambda: None
        self.apart: set[int] = set()  # what has something to be stored
        self.storing: Callable[[int], None] = lambda _: None

    def record(self, batch: list[tuple[int, Outcome]]) -> set[int]:
        if self.fail_recording([key for key, _ in batch]):
            raise RuntimeError("the database is away")
        self.batches.append(len(batch))
        self.recorded_twice += [key for key, _ in batch if key in self.outcomes]
        self.outcomes.update({key: outcome for key, outcome in batch if key not in self.apart})
        return self.apart & {key for key, _ in batch}

    def record_apart(self, key: int, outcome: Outcome) -> None:
        self.storing(key)
        self.outcomes[key] = outcome

    def renew(self, keys: list[int]) -> set[int]:
        self.renewed.append(keys)
        self.renewing()
        return set(keys) - self.lost


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def make_loop(ledger: Ledger) -> Iterator[Callable[[float], CallLoop[int]]]:
    loops: list[CallLoop[int]] = []

    def make(lease_seconds: float = 15) -> CallLoop[int]:
        loops.append(CallLoop(ledger.record, ledger.renew, lease_seconds, ledger.record_apart))
        return loops[-1]

    yield make
    for loop in loops:
        loop.stop(1)


MakeLoop = Callable[..., CallLoop[int]]


def until(true: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.005)


def test_two_hundred_calls_are_in_flight_at_once(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    loop = make_loop()
    for key in range(200):
        assert loop.start(key, make_call(provider.url, path="'/hold'"))
    until(lambda: provider.now == 200)
    assert loop.in_flight == 200
    provider.release.set()
    assert loop.drain(5) == 0
    assert {key: o.verdict for key, o in ledger.outcomes.items()} == dict.fromkeys(range(200), "succeeded")
    assert max(ledger.batches) <= 100
    assert ledger.recorded_twice == []


def test_a_key_in_flight_is_not_started_again(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    loop = make_loop()
    assert loop.start(1, make_call(provider.url, path="'/hold'"))
    assert not loop.start(1, make_call(provider.url, path="'/hold'"))
    provider.release.set()
    loop.drain(5)
    assert provider.seen["/hold"] == 1
    assert loop.in_flight == 0


def test_a_lost_lease_cancels_its_call_and_no_other(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    loop = make_loop(1.0)
    ledger.lost = {1}
    loop.start(1, make_call(provider.url, path="'/hold'"))
    loop.start(2, make_call(provider.url, path="'/hold'"))
    until(lambda: 1 in ledger.outcomes)
    lost = ledger.outcomes[1]
    assert (lost.over, lost.verdict, lost.error_code) == (False, "unknown", "lease_lost")
    time.sleep(1.7)  # longer than a lease: the other is kept alive by its renewals
    assert 2 not in ledger.outcomes
    provider.release.set()
    loop.drain(5)
    assert ledger.outcomes[2].verdict == "succeeded"


def test_a_call_ends_before_its_lease_when_renewing_fails(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    def away() -> None:
        raise ConnectionError("the database is away")

    ledger.renewing = away
    loop = make_loop(3.0)  # so long that a machine which has no time for us for some tenths of a second breaks nothing
    started = time.monotonic()
    loop.start(1, make_call(provider.url, path="'/hold'"))
    until(lambda: 1 in ledger.outcomes)
    assert 2.1 < time.monotonic() - started < 3.0
    assert ledger.outcomes[1].error_code == "lease_lost"
    assert len(ledger.renewed) >= 2


def test_a_call_ends_before_its_lease_when_renewing_hangs(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    unblock = threading.Event()
    ledger.renewing = lambda: (unblock.wait(20), None)[1]
    loop = make_loop(3.0)
    started = time.monotonic()
    loop.start(1, make_call(provider.url, path="'/hold'"))
    until(lambda: 1 in ledger.outcomes)
    assert time.monotonic() - started < 3.0
    unblock.set()


def test_a_renewal_that_fails_once_costs_nothing(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    failures = [ConnectionError("once")]

    def once() -> None:
        if failures:
            raise failures.pop()

    ledger.renewing = once
    loop = make_loop(1.5)
    loop.start(1, make_call(provider.url, path="'/hold'"))
    until(lambda: len(ledger.renewed) >= 5)
    assert ledger.outcomes == {}
    provider.release.set()
    loop.drain(5)
    assert ledger.outcomes[1].verdict == "succeeded"


def test_a_lease_is_renewed_until_the_outcome_is_recorded(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    ledger.fail_recording = lambda _: True
    loop = make_loop(0.3)
    loop.start(1, make_call(provider.url))
    until(lambda: len(ledger.renewed) >= 4)
    assert loop.in_flight == 1
    ledger.fail_recording = lambda _: False
    assert loop.drain(5) == 0
    assert ledger.outcomes[1].verdict == "succeeded"


def test_a_batch_that_cannot_be_recorded_is_tried_one_by_one_and_nothing_is_lost(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    tries, poisoned = [], {7}  # fails with any batch it is in, and alone

    def fail(keys: list[int]) -> bool:
        tries.extend(keys[: keys == [7]])
        return bool(poisoned & set(keys))

    ledger.fail_recording = fail
    loop = make_loop()
    for key in range(50):
        loop.start(key, make_call(provider.url, path="'/hold'"))
    until(lambda: provider.now == 50)
    provider.release.set()
    until(lambda: len(ledger.outcomes) == 49)  # the others do not wait for the poisoned one
    until(lambda: len(tries) >= 2)
    assert 7 not in ledger.outcomes
    poisoned.clear()
    assert loop.drain(10) == 0
    assert set(ledger.outcomes) == set(range(50))
    assert ledger.recorded_twice == []


def test_a_recorder_that_is_away_for_a_while_loses_nothing(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    tries: list[int] = []

    def away(keys: list[int]) -> bool:
        tries.append(len(keys))
        return len(tries) < 10

    ledger.fail_recording = away
    loop = make_loop()
    for key in range(150):
        loop.start(key, make_call(provider.url))
    assert loop.drain(10) == 0
    assert set(ledger.outcomes) == set(range(150))
    assert ledger.recorded_twice == []


def test_draining_waits_for_calls_and_takes_no_new_ones(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    loop = make_loop()
    loop.start(1, make_call(provider.url, path="'/hold'"))
    assert loop.drain(0.1) == 1
    with pytest.raises(NotAcceptingError):
        loop.start(2, make_call(provider.url))
    provider.release.set()
    assert loop.drain(5) == 0
    assert ledger.outcomes[1].verdict == "succeeded"


def test_stopping_records_what_still_ran_as_unknown(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    loop = make_loop()
    loop.start(1, make_call(provider.url, path="'/hold'"))
    until(lambda: provider.now == 1)
    assert loop.stop(5) == 0
    stopped = ledger.outcomes[1]
    assert (stopped.over, stopped.verdict, stopped.error_code) == (False, "unknown", "worker_stopped")
    assert loop.stop() == 0


def test_a_loop_that_was_never_used_starts_no_threads_and_stops(make_loop: MakeLoop) -> None:
    before = threading.active_count()
    loop = make_loop()
    assert loop.drain(1) == 0
    assert loop.stop() == 0
    assert threading.active_count() == before


def test_an_adapter_that_does_not_exist_is_an_outcome(provider: Provider, ledger: Ledger, make_loop: MakeLoop) -> None:
    loop = make_loop()
    call = make_call(provider.url)
    call.upstream["adapter"] = "nowhere"
    loop.start(1, call)
    loop.drain(5)
    found = ledger.outcomes[1]
    assert (found.over, found.verdict, found.error_code) == (True, "not_executed", "adapter_missing")
    assert found.error_class == "", "a fault of this process alone"


def test_a_storage_that_hangs_or_fails_holds_up_no_other_outcome(
    provider: Provider, ledger: Ledger, make_loop: MakeLoop
) -> None:
    loop, back = make_loop(1.5), threading.Event()
    failed: list[int] = []

    def storing(key: int) -> None:
        if key == 0:
            back.wait(10)
        elif not back.is_set():
            failed.append(key)
            raise OSError("the storage is away")

    ledger.apart, ledger.storing = {0, 1}, storing
    for key in range(10):
        loop.start(key, make_call(provider.url, path="'/ok'"))
    until(lambda: set(ledger.outcomes) == set(range(2, 10)))
    until(lambda: len(failed) > 1)
    until(lambda: set(ledger.renewed[-1]) == {0, 1} if ledger.renewed else False)
    assert loop.in_flight == 2, "their leases are kept"
    back.set()
    assert loop.drain(10) == 0
    assert ledger.outcomes[0].verdict == ledger.outcomes[1].verdict == ledger.outcomes[2].verdict
