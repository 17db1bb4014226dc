"""Crash points: nothing happens unless asked; the nth passing of all processes is hit, once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import arming
from tests.whole.running import PROJECT

PASSING = "from statemachine.crashpoints import crashpoint\nfor _ in range({}): crashpoint('here')"


def passing(folder: str, times: int) -> int:
    """The exit status of a process that passes the point so often."""
    environment = {**os.environ, "CRASHPOINTS": folder}
    command = [sys.executable, "-c", PASSING.format(times)]
    return subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode


def test_nothing_happens_unless_asked(tmp_path: Path) -> None:
    assert passing("", 3) == 0
    assert passing(str(tmp_path), 3) == 0


@pytest.mark.parametrize("hit", [1, 2, 3])
def test_the_nth_passing_ends_its_process_and_no_other(tmp_path: Path, hit: int) -> None:
    arming.arm(tmp_path, "here", hit)
    assert [passing(str(tmp_path), 1) for _ in range(hit + 1)] == [0] * (hit - 1) + [-signal.SIGKILL, 0]
    assert len(arming.victims(tmp_path, "here")) == 1
    assert not arming.disarm(tmp_path, "here")


@pytest.mark.parametrize("name", ["here.1~", "here.1.bak", "here.1.1"])
def test_what_is_no_number_arms_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("9")
    assert passing(str(tmp_path), 1) == 0


def test_another_point_is_not_hit_and_a_point_can_be_disarmed(tmp_path: Path) -> None:
    arming.arm(tmp_path, "there")
    arming.arm(tmp_path, "here", 2)
    assert arming.disarm(tmp_path, "here")
    assert passing(str(tmp_path), 3) == 0
    assert (tmp_path / "there.1").exists()
