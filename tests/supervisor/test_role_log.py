"""The log of a role stays short while its process writes, and what the process wrote is found again."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker_project.supervisor import role_log
from broker_project.supervisor.role_log import RoleLog


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RoleLog:
    monkeypatch.setattr(role_log, "LOG_BYTES", 100)
    path = tmp_path / "role.log"
    path.write_text("an earlier process\n")
    return RoleLog(path)


def write(log: RoleLog, text: str) -> None:
    assert log.path is not None
    with log.path.open("a") as file:
        file.write(text)


def test_a_long_log_is_set_aside_and_begun_anew(log: RoleLog, tmp_path: Path) -> None:
    write(log, "x" * 100)
    log.turn_over()
    write(log, "new\n")
    log.turn_over()

    assert (tmp_path / "role.log").read_text() == "new\n"
    assert (tmp_path / "role.log.1").read_text().startswith("an earlier process\nxxx")


def test_only_a_few_old_ones_are_kept_the_newest_first(log: RoleLog, tmp_path: Path) -> None:
    for turn in range(6):
        write(log, f"turn {turn} " + "x" * 100)
        log.turn_over()

    kept = sorted(tmp_path.iterdir())
    assert [path.name for path in kept] == ["role.log", *(f"role.log.{n}" for n in range(1, role_log.OLD_LOGS + 1))]
    assert [path.read_text()[:6] for path in kept] == ["", "turn 5", "turn 4", "turn 3"]


def test_a_process_goes_on_writing_into_the_same_log(log: RoleLog) -> None:
    assert log.path is not None
    code = "import sys\nfor line in sys.stdin: print('x' * 60 + line, end='', flush=True)"
    with log.path.open("ab") as stream:
        writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=stream, text=True)
    assert writer.stdin is not None
    for number in range(8):
        writer.stdin.write(f"line {number}\n")
        writer.stdin.flush()
        log.turn_over()
    writer.communicate()

    assert log.path.stat().st_size <= 8 * 70
    assert b"\0" not in log.path.read_bytes()  # a writer that kept its own position would leave a hole
    assert log.path.read_text().endswith("line 7\n")


def test_what_the_present_process_wrote_is_found_after_turns(log: RoleLog) -> None:
    log.begin()
    assert log.text() == ""
    write(log, "begins\n")
    assert log.text() == "begins\n"
    write(log, "x" * 100 + "\n")
    log.turn_over()
    write(log, "goes on\n")
    assert log.text() == "begins\n" + "x" * 100 + "\ngoes on\n"

    write(log, "y" * 100 + "\n")
    log.turn_over()
    write(log, "ends\n")
    assert log.text() == "goes on\n" + "y" * 100 + "\nends\n"

    log.begin()
    assert log.text() == ""


def test_of_a_long_text_the_end_is_read(log: RoleLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_log, "TEXT_BYTES", 10)
    log.begin()
    write(log, "x" * 1000 + "0123456789")
    assert log.text() == "0123456789"


def test_a_log_that_cannot_be_copied_stays_as_it_is(log: RoleLog, tmp_path: Path) -> None:
    write(log, "x" * 100)
    (tmp_path / ".role.log.copy").mkdir()  # in the way of the copy

    with pytest.raises(OSError, match=r"role\.log\.copy"):
        log.turn_over()

    assert log.path is not None
    assert log.path.read_text() == "an earlier process\n" + "x" * 100


def test_without_room_for_a_copy_the_older_ones_go_first(log: RoleLog, tmp_path: Path) -> None:
    write(log, "x" * 100)
    log.turn_over()
    write(log, "y" * 200)
    (tmp_path / ".role.log.copy").mkdir()

    with pytest.raises(OSError, match=r"role\.log\.copy"):
        log.turn_over()

    assert not (tmp_path / "role.log.1").exists()
