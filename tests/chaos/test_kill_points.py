"""Processes die at the sharpest gaps between two writes, under load: the short form of the kill points."""

import signal

import pytest

from tests.chaos.judging import drained
from tests.chaos.kill_points import SHARPEST, hit, named
from tests.chaos.watch import watched
from tests.chaos.world import World

pytestmark = pytest.mark.processes
ZOMBIES = ("assign.claimed", "dispatch.intended", "finish.settled")


def test_who_dies_between_two_writes_loses_doubles_and_leaks_nothing(chaos: World) -> None:
    chaos.load.begin()
    with watched(chaos) as sessions:
        with sessions.excused():
            hit(chaos, points=named(SHARPEST), nth=1, kind=signal.SIGKILL)
            hit(chaos, points=named(ZOMBIES), nth=1, kind=signal.SIGSTOP)
        assert drained(chaos, sessions).violations == []
