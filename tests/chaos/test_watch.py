"""Who watches the sessions is put on trial: a world that is told here, and looks that are taken one by one."""

import time
from typing import Any

import httpx
import pytest

from tests.chaos import watch
from tests.chaos.declared import UNASKABLE
from tests.chaos.watch import Sessions

KEPT = 0.05
KEY = "job.00000000-0000-7000-8000-000000000001.a1"


class Told:
    """Sessions that are taken, what runs, and what is known of attempts: as `World` tells them."""

    simulators = {"upstream": ""}

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.running: list[str] = []
        self.attempts: list[dict[str, Any]] = []
        self.away = False

    def of_simulator(self, *_: str) -> list[dict[str, Any]]:
        if self.away:
            raise httpx.ConnectError("away")
        return [{"key": key, "end": None} for key in self.running]

    def rows(self, sql: str, *_: Any) -> list[dict[str, Any]]:
        return self.attempts if "dispatch_key = ANY" in sql else self.taken

    def takes(self, job_type: str = "swift", called: float = 1.0) -> None:
        of_job = {"type": job_type, "given_up": False, "max_runtime": 6.0, "called": called}
        self.taken = [{"resource": 1, "attempt": 1, "key": KEY, "state": "busy", **of_job}]


@pytest.fixture
def world() -> Told:
    return Told()


@pytest.fixture
def sessions(world: Told, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(watch, "UNUSABLE_SECONDS", KEPT)
    return Sessions(world)  # type: ignore[arg-type]


def look_for(sessions: Sessions, seconds: float = 2 * KEPT) -> None:
    sessions.look()
    time.sleep(seconds)
    sessions.look()


def test_a_session_that_is_kept_is_told_once_and_until_it_is_taken_note_of(world: Told, sessions: Sessions) -> None:
    world.takes()
    look_for(sessions)
    look_for(sessions)
    with sessions.excused():
        pass
    (found,) = sessions.take_found()
    assert found.startswith("unusable for")
    assert sessions.take_found() == []


def test_a_session_on_which_something_runs_is_not_kept(world: Told, sessions: Sessions) -> None:
    world.takes()
    world.running = [KEY]
    look_for(sessions)
    assert sessions.take_found() == []


def test_what_a_fault_keeps_counts_only_from_its_end(world: Told, sessions: Sessions) -> None:
    world.takes()
    with sessions.excused():
        look_for(sessions)
    sessions.look()
    assert sessions.take_found() == []
    look_for(sessions)
    assert len(sessions.take_found()) == 1


def test_what_nobody_can_be_asked_for_is_told_when_it_was_waited_out(world: Told, sessions: Sessions) -> None:
    world.takes(UNASKABLE[0])
    look_for(sessions)
    assert sessions.take_found() == []
    world.takes(UNASKABLE[0], called=6.0 + 2 * KEPT)
    sessions.look()
    assert len(sessions.take_found()) == 1


def test_a_look_that_fails_makes_all_begin_anew(world: Told, sessions: Sessions) -> None:
    world.takes()
    sessions.look()
    time.sleep(2 * KEPT)
    world.away = True
    sessions.look()
    world.away = False
    sessions.look()
    assert sessions.take_found() == []


@pytest.mark.parametrize("known", [[], [{"key": KEY, "excused": False}]])
def test_what_runs_while_its_session_is_free_is_told_whatever_fault_there_is(
    world: Told, sessions: Sessions, known: list[dict[str, Any]]
) -> None:
    world.running, world.attempts = [KEY], known
    with sessions.excused():
        look_for(sessions)
    (found,) = sessions.take_found()
    assert found.startswith("runs, and its session is free")


def test_what_was_waited_out_may_run_on(world: Told, sessions: Sessions) -> None:
    world.running, world.attempts = [KEY], [{"key": KEY, "excused": True}]
    look_for(sessions)
    assert sessions.take_found() == []


def test_all_is_told_only_when_nobody_looked_away_for_so_long(
    world: Told, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TOLD_SECONDS", 2 * KEPT)
    monkeypatch.setattr(watch, "LOOKS_SECONDS", KEPT)
    since = time.monotonic()
    sessions.look()
    with pytest.raises(AssertionError):
        sessions.await_told(since)
    time.sleep(2 * KEPT)
    sessions.look()
    sessions.await_told(since)
