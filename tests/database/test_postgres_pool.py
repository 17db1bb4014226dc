"""Pooled connections: given back and used again, healed after the server ended them, and refused when all are taken."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from broker_project.postgres_pool import base
from tests import db
from tests.db import RACE_SECONDS, in_another_connection

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    return int(db.value("SELECT pg_backend_pid()"))


@pytest.fixture
def own() -> Iterator[base.DatabaseWrapper]:
    """A wrapper with a pool of its own, so that what happens to it happens to nobody else."""
    wrapper = connection.copy()
    wrapper.settings_dict = {
        **wrapper.settings_dict,
        "OPTIONS": {**wrapper.settings_dict["OPTIONS"], "application_name": f"test-{time.monotonic_ns()}"},
    }
    yield wrapper
    wrapper.close()


def pid_of(wrapper: base.DatabaseWrapper) -> int:
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def end_backend(pid: int) -> None:
    """Returns when the server has ended it."""
    assert db.value("SELECT pg_terminate_backend(%s, 5000)", [pid]) is True


def test_a_connection_goes_back_and_is_used_again(own: base.DatabaseWrapper) -> None:
    used = base.pool_status()["used"]
    pid = pid_of(own)
    assert base.pool_status()["used"] == used + 1
    own.close()
    assert base.pool_status()["used"] == used
    assert pid_of(own) == pid


def test_threads_one_after_another_share_a_connection() -> None:
    first = in_another_connection(backend).result(RACE_SECONDS)
    # The future is done a moment before its thread has given the connection back.
    deadline = time.monotonic() + RACE_SECONDS
    while in_another_connection(backend).result(RACE_SECONDS) != first:
        assert time.monotonic() < deadline


def test_two_at_once_do_not(own: base.DatabaseWrapper) -> None:
    assert pid_of(own) != backend()


def test_what_was_left_open_is_rolled_back_and_the_next_begins_afresh(
    own: base.DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "IDLE_SECONDS_BEFORE_PING", 0.0)  # the ping must not open a transaction either
    own.set_autocommit(False)
    with own.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '1ms'")
        cursor.execute("CREATE TABLE left_behind ()")
    pid = pid_of(own)
    own.close()
    assert pid_of(own) == pid
    with own.cursor() as cursor:
        cursor.execute("SELECT to_regclass('left_behind'), current_setting('lock_timeout')")
        assert cursor.fetchone() == (None, "10s")
    assert own.connection.autocommit is True
    assert own.get_autocommit() is True
    assert db.value("SELECT state FROM pg_stat_activity WHERE pid = %s", [pid]) == "idle"


def test_a_session_that_the_server_ended_heals_at_the_next_use(own: base.DatabaseWrapper) -> None:
    pid = pid_of(own)
    end_backend(pid)
    with pytest.raises(OperationalError):
        pid_of(own)
    own.close()
    assert pid_of(own) != pid


def test_a_session_that_was_ended_while_it_rested_is_replaced_unnoticed(
    own: base.DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "IDLE_SECONDS_BEFORE_PING", 0.0)
    pid = pid_of(own)
    own.close()
    end_backend(pid)
    assert pid_of(own) != pid


def test_a_session_that_was_ended_in_a_transaction_does_not_come_back(own: base.DatabaseWrapper) -> None:
    own.set_autocommit(False)
    pid = pid_of(own)
    end_backend(pid)
    with pytest.raises(OperationalError):
        pid_of(own)
    own.close()
    assert pid_of(own) != pid
    assert own.get_autocommit() is True


def test_when_all_are_taken_the_next_is_refused_within_the_time(
    own: base.DatabaseWrapper, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(base, "CHECKOUT_SECONDS", 0.2)
    settings.DATABASE_POOL_SIZE = 2
    others = [own.copy(), own.copy()]
    pids = {pid_of(wrapper) for wrapper in (own, others[0])}
    assert len(pids) == 2
    began = time.monotonic()
    with pytest.raises(OperationalError, match="no database connection became free"):
        pid_of(others[1])
    assert 0.2 <= time.monotonic() - began < 1
    own.close()
    assert pid_of(others[1]) in pids
    for wrapper in others:
        wrapper.close()


def test_a_verb_that_raises_leaves_no_transaction_behind() -> None:
    def fail() -> None:
        with transaction.atomic():
            db.execute("SELECT 1")
            raise ZeroDivisionError

    failed: Future[None] = in_another_connection(fail)
    with pytest.raises(ZeroDivisionError):
        failed.result(RACE_SECONDS)
    left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state ~ '^idle in transaction'"
    assert db.value(left) == 0
