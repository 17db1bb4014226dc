"""The embedded servers keep what was acknowledged through kill -9, and start beside whatever a crash has left."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg2
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.ports import free_ports
from broker_project.supervisor.postgres import EmbeddedPostgres
from broker_project.supervisor.processes import Entry, ProcessTable
from broker_project.supervisor.valkey import EmbeddedValkey
from tests.servers import await_answer

pytestmark = pytest.mark.processes


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    table = ProcessTable()
    yield table
    table.stop_all()


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that every user may pass. Those of pytest are closed to others by each run of it that begins."""
    with TemporaryDirectory(prefix="berth-home-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


def start_postgres(table: ProcessTable, home: Path) -> tuple[EmbeddedPostgres, Entry]:
    (port,) = free_ports(1)
    server = EmbeddedPostgres(home, port, "secret", durable=False)
    server.initialise()
    entry = table.start(server.role(home / "postgres.log"))
    await_answer(server.answers, entry.log_text)
    server.create_database()
    return server, entry


def start_valkey(table: ProcessTable, home: Path) -> tuple[EmbeddedValkey, Entry]:
    (port,) = free_ports(1)
    server = EmbeddedValkey(home, port, "secret")
    entry = table.start(server.role(home / "valkey.log"))
    await_answer(server.answers, entry.log_text)
    return server, entry


def kill(entry: Entry) -> None:
    assert entry.process is not None
    entry.process.kill()
    entry.process.wait()


def query(server: EmbeddedPostgres, statement: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(server.url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_postgres_is_utf8_and_asks_for_its_password(table: ProcessTable, tmp_path: Path) -> None:
    server, _ = start_postgres(table, tmp_path)

    assert query(server, "SHOW server_encoding") == [("UTF8",)]
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(server.url.replace("secret", "guess"))
    with pytest.raises(StartFailed, match=f"another password than {tmp_path}/secrets.json"):
        EmbeddedPostgres(tmp_path, server.port, "guess").answers()


def test_committed_rows_outlive_kill_9_and_a_pid_file_that_names_a_stranger(
    table: ProcessTable, tmp_path: Path
) -> None:
    server, entry = start_postgres(table, tmp_path)
    query(server, "CREATE TABLE kept AS SELECT 7 AS n")
    kill(entry)
    pid_file = server.place.data / "postmaster.pid"
    pid_file.write_text(pid_file.read_text().replace(pid_file.read_text().split()[0], str(os.getppid()), 1))

    again, _ = start_postgres(table, tmp_path)

    assert query(again, "SELECT n FROM kept") == [(7,)]


def test_a_server_that_a_killed_start_left_running_is_ended_first(table: ProcessTable, tmp_path: Path) -> None:
    _, left = start_postgres(ProcessTable(), tmp_path)
    _, left_valkey = start_valkey(ProcessTable(), tmp_path)
    assert left.process is not None
    assert left_valkey.process is not None

    start_postgres(table, tmp_path)
    start_valkey(table, tmp_path)

    assert left.process.wait(5) == 0
    assert left_valkey.process.wait(5) == 0


def test_a_making_of_the_data_that_was_cut_short_is_begun_anew(table: ProcessTable, tmp_path: Path) -> None:
    half = tmp_path / "postgres" / "half-made"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")

    server, _ = start_postgres(table, tmp_path)

    assert not half.exists()
    assert query(server, "SELECT 1") == [(1,)]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux has this choice")
def test_root_without_namespaces_runs_postgres_as_nobody(passable: Path, table: ProcessTable) -> None:
    # A home that was once made this way stays so, which is how the test gets there where namespaces are allowed.
    outside = passable / "outside"
    outside.mkdir(mode=0o711)
    (passable / "postgres-nobody").symlink_to(outside)

    server, entry = start_postgres(table, passable)
    query(server, "CREATE TABLE kept AS SELECT 7 AS n")
    kill(entry)
    again, entry = start_postgres(table, passable)

    assert "nobody" in again.place.way
    assert entry.process is not None
    assert Path(f"/proc/{entry.process.pid}").stat().st_uid != 0
    assert query(again, "SELECT n FROM kept") == [(7,)]


def test_valkey_keeps_its_keys_through_a_stop_and_hides_its_password(table: ProcessTable, tmp_path: Path) -> None:
    server, entry = start_valkey(table, tmp_path)
    with redis.Redis.from_url(server.url) as client:
        client.set("kept", "7")
    assert entry.process is not None
    assert b"secret" not in b"".join(map(os.fsencode, entry.role.command))
    entry.process.send_signal(signal.SIGTERM)
    assert entry.process.wait(5) == 0

    again, _ = start_valkey(table, tmp_path)

    with redis.Redis.from_url(again.url) as client:
        assert client.get("kept") == b"7"
    with (
        redis.Redis(port=again.port, retry=Retry(NoBackoff(), 0)) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()
