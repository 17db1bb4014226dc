"""A breaker: one failure opens it for everybody, and only a thread of its own asks when it may close."""

import logging
import threading
from collections.abc import Iterator

import pytest

from jobs import breaker as module
from jobs.breaker import Breaker
from jobs.outage import Outage
from tests.db import RACE_SECONDS
from tests.supervisor.waiting import wait_until

OF_ITS_OWN = "asks The place"


class Place:
    """Something that answers or does not, and counts the questions."""

    def __init__(self) -> None:
        self.answers = False
        self.asked_by: list[str] = []

    def ask(self) -> None:
        self.asked_by.append(threading.current_thread().name)
        if not self.answers:
            raise TimeoutError("it says nothing")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(module, "ASK_SECONDS", 0.02)
    found = Place()
    yield found
    found.answers = True
    # It closes the breaker a moment before it is gone, and the next test counts those that there are.
    for thread in threading.enumerate():
        if thread.name == OF_ITS_OWN:
            thread.join(RACE_SECONDS)


def test_it_is_open_until_the_place_answers_again(place: Place) -> None:
    breaker = Breaker("The place", place.ask)
    assert breaker.closed
    assert place.asked_by == []

    breaker.failed(TimeoutError("it says nothing"))
    assert not breaker.closed
    wait_until(lambda: len(place.asked_by) > 2)
    assert not breaker.closed

    place.answers = True
    wait_until(lambda: breaker.closed)
    assert set(place.asked_by) == {OF_ITS_OWN}


def test_many_failures_make_one_who_asks(place: Place) -> None:
    breaker = Breaker("The place", place.ask)
    for _ in range(50):
        breaker.failed(TimeoutError("it says nothing"))
    assert [thread.name for thread in threading.enumerate()].count(OF_ITS_OWN) == 1
    place.answers = True
    wait_until(lambda: breaker.closed)


def test_one_who_asks_that_is_gone_is_replaced(place: Place) -> None:
    """As after a fork: the state came along, the thread did not."""
    breaker = Breaker("The place", place.ask)
    breaker._open = True
    place.answers = True

    assert not breaker.closed
    wait_until(lambda: breaker.closed)


def test_an_outage_is_told_as_it_begins_now_and_then_and_as_it_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("jobs.outage.time.monotonic", lambda: now[0])
    outage = Outage(logging.getLogger("tests"), "The place", "we go round it")
    with caplog.at_level(logging.INFO, "tests"):
        outage.over()
        for second in range(25):
            now[0] = 1000.0 + second
            outage.noted(TimeoutError("it says nothing\nand more"))
        outage.over(since=1000.0)  # something was noted since: not over
        now[0] = 1026.0
        outage.over(since=1025.0)
        outage.over(since=1025.0)

    assert [record.getMessage() for record in caplog.records] == [
        "The place fails, we go round it: it says nothing",
        "The place fails for 10 s, we go round it: it says nothing",
        "The place fails for 20 s, we go round it: it says nothing",
        "The place works again after 26 s",
    ]
