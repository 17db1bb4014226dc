"""What the doctor says of a database: each fault is made, and must be found with what to do about it."""

import time
from typing import Any

import pytest
from django.db import connection

from broker_project.doctor import of_database
from broker_project.doctor.findings import Finding
from tests import db
from tests.doctor.conftest import Connected

pytestmark = pytest.mark.django_db


def test_a_database_that_is_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    place = connection.settings_dict
    assert of_database.reachable() == Finding("ok", f"{place['HOST']}:{place['PORT']}/{place['NAME']} answers")
    monkeypatch.setitem(place, "PASSWORD", "c4n4ry")
    refused = of_database.reachable()
    assert (refused.level, "password authentication failed" in refused.found) == ("error", True)
    assert "c4n4ry" not in refused.found


def test_a_server_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_database.version().level == "ok"
    monkeypatch.setattr(of_database, "OLDEST_VERSION", 99)
    assert of_database.version().level == "error"


def test_a_schema_of_another_age_is_named() -> None:
    assert of_database.migrations().level == "ok"
    db.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '0999_of_tomorrow', now())")
    assert of_database.migrations() == Finding(
        "warning", "not known here: jobs.0999_of_tomorrow", "this code is older than the schema: update it"
    )
    db.execute("DELETE FROM django_migrations WHERE app = 'jobs' AND name = '0001_initial'")
    assert of_database.migrations() == Finding("error", "not applied: jobs.0001_initial", "`manage.py migrate`")


def test_a_commit_that_does_not_wait_for_the_disk_is_an_error() -> None:
    db.execute("SET LOCAL synchronous_commit = off")
    found = of_database.durability()
    assert (found.level, "synchronous_commit is off" in found.found) == ("error", True)


def test_the_pools_of_all_processes_must_fit(settings: Any, connected: Connected) -> None:
    settings.DATABASE_POOL_SIZE = 2
    connected("process:web"), connected("process:web"), connected("worker:upstream@host"), connected("process:4711")
    fits = of_database.connections()
    assert fits.level == "ok"
    assert "up to 4 for us (DATABASE_POOL_SIZE 2, 2 processes seen)" in fits.found
    settings.DATABASE_POOL_SIZE = 10_000
    assert of_database.connections().level == "error"


def test_a_limit_of_the_role_counts(settings: Any) -> None:
    settings.DATABASE_POOL_SIZE = 2
    db.execute("ALTER ROLE CURRENT_USER CONNECTION LIMIT 13")
    found = of_database.connections()
    assert (found.level, "13 allowed" in found.found) == ("warning", True)


def test_clocks_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    here = time.time
    assert of_database.clock().level == "ok"
    monkeypatch.setattr(time, "time", lambda: here() + 5)
    behind = of_database.clock()
    assert (behind.level, behind.found) == ("warning", "5.0 s behind this machine's")
    monkeypatch.setattr(time, "time", lambda: here() - 90)
    assert of_database.clock().level == "error"


@pytest.mark.django_db(transaction=True)
def test_a_forgotten_transaction_is_named_with_its_process(
    monkeypatch: pytest.MonkeyPatch, connected: Connected
) -> None:
    assert of_database.transactions().level == "ok"
    other = connected("process:web")
    other.autocommit = False
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), pg_current_xact_id()")
        pid = cursor.fetchone()[0]
    monkeypatch.setattr(of_database, "LONG_TRANSACTION_SECONDS", 0)
    found = of_database.transactions()
    assert found.level == "warning"
    assert found.found.startswith("berth web ")
    assert f"(pid {pid}, idle in transaction) is in one since 0 s" in found.found
    monkeypatch.setattr(of_database, "VERY_LONG_TRANSACTION_SECONDS", 0)
    assert of_database.transactions().level == "error"


def test_tables_full_of_dead_rows_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_database, "DEAD_ROWS", 10**9)  # what the tests before left behind does not count
    assert of_database.vacuum().level == "ok"
    monkeypatch.setattr(of_database, "DEAD_ROWS", -1)
    monkeypatch.setattr(of_database, "DEAD_SHARE", -1)
    found = of_database.vacuum()
    assert (found.level, "dead rows of" in found.found) == ("warning", True)
    monkeypatch.setattr(of_database, "WRAPAROUND_TRANSACTIONS", 0)
    assert of_database.vacuum().level == "error"
