"""What the process table promises: what dies comes back, stopping is in order, nothing outlives us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_project.supervisor.processes import ProcessTable
from broker_project.supervisor.spawn import Role
from tests.supervisor.waiting import is_running, wait_until

pytestmark = pytest.mark.processes
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
# Says when it is told to end, and ends.
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print(time.monotonic(), flush=True), sys.exit()))
print("up", flush=True)
time.sleep(60)
"""
STUBBORN = POLITE.replace("sys.exit()", "0")


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    table = ProcessTable()
    yield table
    table.stop_all(hurry=lambda: True)


def role(name: str, code: str, folder: Path, *, rank: int = 0, grace_seconds: float = 10.0) -> Role:
    return Role(
        name,
        [sys.executable, "-c", code],
        dict(os.environ),
        folder / f"{name}.log",
        stop_rank=rank,
        grace_seconds=grace_seconds,
    )


def test_a_killed_process_is_reaped_and_back_at_once(table: ProcessTable) -> None:
    entry = table.start(Role("sleeper", SLEEPER, {}))
    assert entry.process is not None
    first = entry.process.pid
    os.kill(first, signal.SIGKILL)
    killed = time.monotonic()

    said: list[str] = []
    wait_until(lambda: said.extend(table.tick()) or len(said) == 2)

    assert 0.2 <= time.monotonic() - killed < 5.0
    assert said[0] == "sleeper ended (killed by SIGKILL); again in 0.2 s"
    assert [each["pid"] for each in table.listing()] == [entry.process.pid]
    assert entry.process.pid != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_repeated_deaths_wait_twice_as_long_each_time_up_to_ten_seconds(table: ProcessTable) -> None:
    entry = table.start(Role("sleeper", SLEEPER, {}))
    process = entry.process

    delays = [entry.note_death() for _ in range(8)]
    entry.started -= 31.0
    after_a_steady_life = entry.note_death()
    entry.process = process

    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert after_a_steady_life == 0.2


def test_a_lower_rank_has_ended_before_the_next_is_told(table: ProcessTable, tmp_path: Path) -> None:
    last = table.start(role("last", POLITE, tmp_path, rank=2))
    first = table.start(role("first", POLITE, tmp_path, rank=1))
    wait_until(lambda: "up" in first.log_text() and "up" in last.log_text())

    table.stop_all()

    assert float(first.log_text().split()[-1]) < float(last.log_text().split()[-1])


def test_what_ignores_its_signal_is_killed_after_its_grace(table: ProcessTable, tmp_path: Path) -> None:
    entry = table.start(role("stubborn", STUBBORN, tmp_path, grace_seconds=0.3))
    wait_until(lambda: "up" in entry.log_text())
    begun = time.monotonic()

    table.stop_all()

    assert 0.3 <= time.monotonic() - begun < 3.0
    assert entry.process is not None
    assert entry.process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from broker_project.supervisor.processes import ProcessTable\n"
        "from broker_project.supervisor.spawn import Role\n"
        f"print(ProcessTable().start(Role('sleeper', {SLEEPER!r}, {{}})).process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()

    wait_until(lambda: not is_running(child))
