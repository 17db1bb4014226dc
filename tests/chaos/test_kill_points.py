"""Processes die at the sharpest gaps between two writes, in one world under load: the short form of the kill points."""

import signal
from pathlib import Path

import pytest

from tests.chaos import kill_points
from tests.chaos.judging import drained
from tests.chaos.world import World

pytestmark = pytest.mark.processes
RATE = 6.0  # jobs a second: enough to come by each gap, and no more than a busy machine does


def test_who_dies_between_two_writes_loses_doubles_and_leaks_nothing(tmp_path: Path) -> None:
    tmp_path.parent.chmod(0o711)  # the database may run as another user, who must pass
    with World(tmp_path, rate=RATE) as world:
        world.load.begin()
        kill_points.hit(world, points=kill_points.named(kill_points.SHARPEST), nth=1, kind=signal.SIGKILL)
        kill_points.hit(
            world, points=kill_points.named(["dispatch.intended", "finish.settled"]), nth=1, kind=signal.SIGSTOP
        )
        assert drained(world).violations == []
