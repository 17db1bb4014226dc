"""`manage.py up` from outside: what runs, what it tells, what it leaves. The servers alone, which is the quick part."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis

from tests.supervisor.waiting import is_running, wait_until

pytestmark = pytest.mark.processes
PROJECT = Path(__file__).resolve().parents[2]
OURS = ("DATABASE_URL", "REDIS_URL", "BERTH_HOME", "SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS", "DEBUG")
Starter = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start_up() -> Iterator[Starter]:
    started: list[subprocess.Popen[str]] = []

    def start(home: Path) -> "subprocess.Popen[str]":
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        command = [sys.executable, "manage.py", "up", "--home", str(home), "--only", "postgres,valkey"]
        process = subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def run_json(home: Path) -> dict[str, Any]:
    file = home / "run.json"
    wait_until(file.exists)
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def pids(home: Path) -> dict[str, int]:
    return {each["role"]: each["pid"] for each in run_json(home)["processes"]}


def table_kept(url: str) -> bool:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
            cursor.execute("INSERT INTO kept VALUES (1)")
            cursor.execute("SELECT count(*) > 1 FROM kept")
            return bool((cursor.fetchone() or (False,))[0])
    finally:
        connection.close()


def test_up_tells_where_all_is_brings_back_what_dies_and_leaves_nothing(start_up: Starter, tmp_path: Path) -> None:
    up = start_up(tmp_path)
    told = run_json(tmp_path)

    names = {"web_url", "flower_url", "database_url", "redis_url", "env", "admin", "processes"}
    assert set(told) == names
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600
    assert told["env"]["DATABASE_URL"] == told["database_url"]
    assert {"BERTH_HOME", "REDIS_URL", "SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS"} <= set(told["env"])
    before = pids(tmp_path)
    assert set(before) == {"postgres", "valkey"}

    for role in before:
        os.kill(before[role], signal.SIGKILL)
    wait_until(lambda: len(pids(tmp_path)) == 2 and not set(pids(tmp_path).values()) & set(before.values()))
    with redis.Redis.from_url(told["redis_url"], retry_on_error=[redis.ConnectionError]) as client:
        wait_until(lambda: _pings(client))
    wait_until(lambda: _connects(told["database_url"]))

    after = pids(tmp_path)
    up.send_signal(signal.SIGTERM)
    assert up.wait(30) == 0
    assert not any(is_running(pid) for pid in (*before.values(), *after.values()))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"logs", "postgres", "valkey", "secrets.json", "up.lock"}
    assert not list(tmp_path.rglob("*.pid"))


def test_a_second_up_on_the_same_home_says_so(start_up: Starter, tmp_path: Path) -> None:
    first = start_up(tmp_path)
    told = run_json(tmp_path)

    second = start_up(tmp_path)
    output, _ = second.communicate(timeout=30)

    assert second.returncode == 1
    assert f"another `manage.py up` runs there (pid {first.pid})" in output
    assert run_json(tmp_path) == told


def test_a_killed_up_leaves_no_process_and_the_next_start_finds_its_data(start_up: Starter, tmp_path: Path) -> None:
    killed = start_up(tmp_path)
    assert not table_kept(run_json(tmp_path)["database_url"])
    before = pids(tmp_path)
    killed.kill()
    killed.wait()

    again = start_up(tmp_path)
    wait_until(lambda: not set(pids(tmp_path).values()) & set(before.values()))

    assert table_kept(run_json(tmp_path)["database_url"])
    assert not any(is_running(pid) for pid in before.values())
    again.send_signal(signal.SIGINT)
    assert again.wait(30) == 0


def _pings(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def _connects(url: str) -> bool:
    try:
        psycopg2.connect(url).close()
    except psycopg2.OperationalError:
        return False
    return True
