"""Pooled connections: given back and used again, named, healed after the server ended them, refused when all are taken."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import Context
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from prometheus_client import REGISTRY

from broker_project.postgres_pool import pools
from broker_project.postgres_pool.base import DatabaseWrapper
from broker_project.process import role
from statemachine.actors import current_actor, name_process
from tests import db
from tests.db import RACE_SECONDS, in_another_connection

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    return int(db.value("SELECT pg_backend_pid()"))


@pytest.fixture
def named() -> Iterator[DatabaseWrapper]:
    """A wrapper with a pool of its own whose connections are named after this process."""
    wrapper = connection.copy()
    options = wrapper.settings_dict["OPTIONS"]
    wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**options, "connect_timeout": 7}}
    before = Context().run(current_actor)
    yield wrapper
    name_process(before)
    wrapper.close()
    with wrapper.cursor():  # takes its old name back, so that no other test sees a process that is not there
        wrapper.close()


def name_of(wrapper: DatabaseWrapper) -> str:
    """As others see it."""
    name = db.value("SELECT application_name FROM pg_stat_activity WHERE pid = %s", [pid_of(wrapper)])
    return str(name)


def number(name: str) -> float:
    return REGISTRY.get_sample_value(name, {"role": role()}) or 0.0


def pid_of(wrapper: DatabaseWrapper) -> int:
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def end_backend(pid: int) -> None:
    """Returns when the server has ended it."""
    assert db.value("SELECT pg_terminate_backend(%s, 5000)", [pid]) is True


def test_a_connection_goes_back_and_is_used_again(own: DatabaseWrapper) -> None:
    used = pools.status()["used"]
    pid = pid_of(own)
    assert pools.status()["used"] == used + 1
    own.close()
    assert pools.status()["used"] == used
    assert pid_of(own) == pid


def test_threads_one_after_another_share_a_connection() -> None:
    first = in_another_connection(backend).result(RACE_SECONDS)
    assert in_another_connection(backend).result(RACE_SECONDS) == first


def test_two_at_once_do_not(own: DatabaseWrapper) -> None:
    assert pid_of(own) != backend()


def test_what_was_left_open_is_rolled_back_and_the_next_begins_afresh(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS_BEFORE_PING", 0.0)  # the ping must not open a transaction either
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


def test_a_session_that_the_server_ended_heals_at_the_next_use(own: DatabaseWrapper) -> None:
    pid = pid_of(own)
    end_backend(pid)
    with pytest.raises(OperationalError):
        pid_of(own)
    own.close()
    assert pid_of(own) != pid


def test_a_session_that_was_ended_while_it_rested_is_replaced_unnoticed(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS_BEFORE_PING", 0.0)
    pid = pid_of(own)
    own.close()
    end_backend(pid)
    assert pid_of(own) != pid


def test_a_session_that_was_ended_in_a_transaction_does_not_come_back(own: DatabaseWrapper) -> None:
    own.set_autocommit(False)
    pid = pid_of(own)
    end_backend(pid)
    with pytest.raises(OperationalError):
        pid_of(own)
    own.close()
    assert pid_of(own) != pid
    assert own.get_autocommit() is True


def test_when_all_are_taken_the_next_is_refused_within_the_time(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(pools, "CHECKOUT_SECONDS", 0.2)
    settings.DATABASE_POOL_SIZE = 2
    others = [own.copy(), own.copy()]
    pids = {pid_of(wrapper) for wrapper in (own, others[0])}
    assert len(pids) == 2
    began = time.monotonic()
    with pytest.raises(OperationalError, match="no database connection became free"):
        pid_of(others[1])
    assert 0.2 <= time.monotonic() - began < RACE_SECONDS
    own.close()
    assert pid_of(others[1]) in pids
    for wrapper in others:
        wrapper.close()


def test_the_wait_is_measured_and_giving_up_is_counted(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(pools, "CHECKOUT_SECONDS", 0.2)
    settings.DATABASE_POOL_SIZE = 2
    waits, timeouts = number("berth_database_checkout_seconds_count"), number("berth_database_checkout_timeouts_total")
    others = [own.copy(), own.copy()]
    pid_of(own), pid_of(others[0])
    with pytest.raises(OperationalError):
        pid_of(others[1])
    assert number("berth_database_checkout_seconds_count") == waits + 3
    assert number("berth_database_checkout_timeouts_total") == timeouts + 1
    others[0].close()


def test_how_full_the_pools_are_is_shown_and_asked_for(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(pools, "SHOWN_SECONDS", 0.0)
    settings.DATABASE_POOL_SIZE = 2
    backend()  # the tests' own connection, from a pool of its own
    other = own.copy()
    used = pools.status()["used"]
    pid_of(own), pid_of(other)
    status = pools.status()
    assert status["used"] == used + 2
    assert own.saturation() == status["used"] / status["size"]
    assert number("berth_database_connections_used") == status["used"]
    other.close()
    assert number("berth_database_connections_used") == used + 1
    assert number("berth_database_connections_size") == status["size"]
    assert own.saturation() < status["used"] / status["size"]


def test_that_nothing_is_in_use_is_shown_at_once(own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setattr(pools, "SHOWN_SECONDS", 0.0)
    pid_of(own)
    monkeypatch.setattr(pools, "SHOWN_SECONDS", 60.0)
    assert number("berth_database_connections_used") == 1
    own.close()
    assert number("berth_database_connections_used") == 0
    pid_of(own)
    assert number("berth_database_connections_used") == 0  # not again so soon


def test_a_connection_says_which_process_it_belongs_to(named: DatabaseWrapper) -> None:
    name_process("worker:upstream@some-host")
    assert name_of(named) == f"berth worker:upstream {os.getpid()}"


def test_a_process_that_learns_its_name_later_renames_what_it_has(named: DatabaseWrapper) -> None:
    name_process(f"process:{os.getpid()}")
    assert name_of(named) == f"berth {role()} {os.getpid()}"
    pid = pid_of(named)
    name_process("process:web")
    named.close()
    assert (name_of(named), pid_of(named)) == (f"berth web {os.getpid()}", pid)
    assert named.get_autocommit() is True


def test_a_name_of_the_operators_is_left_alone(own: DatabaseWrapper) -> None:
    given = own.settings_dict["OPTIONS"]["application_name"]
    assert name_of(own) == given
    own.close()
    assert name_of(own) == given


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
