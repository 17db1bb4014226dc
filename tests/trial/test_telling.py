"""What is said of a trial: repetitions are counted, and now and then told of, so that nothing looks as if it hung."""

import pytest

from broker_project.trial import telling
from broker_project.trial.live import WAIT, Step
from broker_project.trial.telling import Telling

POLL = Step("poll", "running", "GET /x -> 200")


def test_repetitions_are_counted_with_their_waits_and_told_of_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    told = Telling(said.append, str)
    for step in (POLL, Step(WAIT, "1 s until the next poll"), POLL, Step(WAIT, "1 s until the next poll"), POLL):
        told.step("a t", step)
    assert said == ["a t  poll  GET /x -> 200", "    running", "    … 1 s until the next poll"]
    monkeypatch.setattr(telling.time, "monotonic", lambda: telling.FIRST_TOLD_SECONDS + told._told_at)
    told.step("a t", Step(WAIT, "1 s until the next poll"))
    assert said[3:] == ["    … the same 2 times so far"]
    told.step("a other", POLL)
    assert said[4:6] == ["    the same 2 times more", "a other  poll  GET /x -> 200"]


def test_a_problem_that_repeats_itself_counts_each_time() -> None:
    told = Telling(lambda _line: None, str)
    for _ in range(3):
        told.step("a t", Step("poll", "", problem="no answer in time"))
    assert told.conclusion() == "3 steps are problems: what is declared, or the account, has to be mended"
