"""Room on the disk: too little keeps from starting, scarce is said, and a process that died of it is told so."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker_project.supervisor import room
from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.processes import ProcessTable
from broker_project.supervisor.room import Room
from broker_project.supervisor.spawn import Role
from tests.supervisor.waiting import wait_until

EVERYTHING = 1 << 62


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes, where the machine lets us mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if (
        os.geteuid() != 0
        or sys.platform != "linux"
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607  as mount was found


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65536))
    return filler


def test_too_little_room_keeps_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room.check([tmp_path / "not" / "made" / "yet"])
    monkeypatch.setattr(room, "START_BYTES", EVERYTHING)
    with pytest.raises(StartFailed, match=f"disk full: {tmp_path} has .* MB left"):
        room.check([tmp_path])


def test_scarce_room_is_said_once_for_a_disk_and_once_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOOK_SECONDS", 0.0)
    inside = tmp_path / "inside"
    inside.mkdir()
    looking = Room()
    assert looking.look([tmp_path, inside]) == []
    monkeypatch.setattr(room, "LOW_BYTES", EVERYTHING)
    (line,) = looking.look([tmp_path, inside])
    assert line.startswith(f"disk nearly full: {tmp_path} has ")
    assert looking.look([tmp_path, inside]) == []
    monkeypatch.setattr(room, "FULL_BYTES", EVERYTHING)
    (line,) = looking.look([tmp_path, inside])
    assert line.startswith(f"disk full: {tmp_path} has ")
    monkeypatch.setattr(room, "LOW_BYTES", 0)
    monkeypatch.setattr(room, "FULL_BYTES", 0)
    (line,) = looking.look([tmp_path, inside])
    assert line.startswith(f"{tmp_path} has room again")
    assert looking.look([tmp_path, inside]) == []


def test_it_is_not_looked_at_more_often_than_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOW_BYTES", EVERYTHING)
    looking = Room()
    assert len(looking.look([tmp_path])) == 1
    monkeypatch.setattr(room, "LOW_BYTES", 0)
    assert looking.look([tmp_path]) == []


@pytest.mark.processes
def test_who_died_of_a_full_disk_is_told_so_and_comes_back_when_there_is_room(small: Path) -> None:
    filler = fill(small)
    code = f"open({str(small / 'data')!r}, 'wb', buffering=0).write(bytes(65536)); import time; time.sleep(60)"
    table = ProcessTable()
    entry = table.start(Role("writer", [sys.executable, "-c", code], dict(os.environ), data=small))
    try:
        said: list[str] = []
        wait_until(lambda: said.extend(table.tick()) or any("disk full" in line for line in said))
        assert f"writer ended (exit code 1; disk full: no room left in {small}); again in 0.2 s" in said

        filler.unlink()
        wait_until(lambda: table.tick() and entry.process is not None)
        time.sleep(0.5)
        assert table.tick() == []
    finally:
        table.stop_all(hurry=lambda: True)


@pytest.mark.processes
def test_last_words_tell_too(tmp_path: Path) -> None:
    assert room.ran_out([tmp_path], "all is well") is None
    assert room.ran_out([tmp_path], "could not extend file: No space left on device") == tmp_path


@pytest.mark.processes
def test_a_process_that_cannot_even_be_started_is_tried_again(tmp_path: Path) -> None:
    table = ProcessTable()
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    entry = table.start(Role("late", [str(program), "-c", "pass"], dict(os.environ), tmp_path / "late.log"))
    try:
        said: list[str] = []
        program.unlink()
        wait_until(lambda: said.extend(table.tick()) or len(said) == 2)
        assert said[0] == "late ended (exit code 0); again in 0.2 s"
        assert said[1].startswith("late could not be started (")
        assert said[1].endswith("; again in 0.4 s")

        program.symlink_to(sys.executable)
        wait_until(lambda: said.extend(table.tick()) or said[-1].startswith("late started again"))
        assert entry.process is not None
    finally:
        table.stop_all(hurry=lambda: True)
