"""Every wait for the database has an end, also where it never answers."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError

from broker_project.postgres_pool import deadline, pools
from broker_project.postgres_pool.base import DatabaseWrapper
from statemachine import patience
from statemachine.patience import patient
from tests.database.test_postgres_pool import pid_of
from tests.db import RACE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def deaf(pid: int) -> Iterator[None]:
    """The server's process takes what is sent and says nothing, like one that a network swallows."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("when", ["statement", "transaction", "commit"])
def test_a_server_that_never_answers_is_given_up_and_its_connection_dropped(own: DatabaseWrapper, when: str) -> None:
    own.set_autocommit(when == "statement")
    pid = pid_of(own)
    with deaf(pid), patient(0.3):
        begun = time.monotonic()
        with pytest.raises(OperationalError, match="did not answer within"):
            own.commit() if when == "commit" else pid_of(own)
        assert 0.2 < time.monotonic() - begun < RACE_SECONDS
        own.close()
    assert pid_of(own) != pid
    assert own.get_autocommit() is True


def test_one_that_went_deaf_while_it_rested_costs_a_moment(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS_BEFORE_PING", 0.0)
    monkeypatch.setattr(pools, "PING_SECONDS", 0.3)
    pid = pid_of(own)
    own.close()
    with deaf(pid):
        begun = time.monotonic()
        assert pid_of(own) != pid
        assert time.monotonic() - begun < RACE_SECONDS


def test_a_server_that_takes_connections_and_is_deaf_is_given_up(
    own: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection request is answered by nobody: libpq's connect_timeout does not hold for us, our own does."""
    monkeypatch.setattr(deadline, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own.settings_dict = {**own.settings_dict, "HOST": "127.0.0.1", "PORT": str(listener.getsockname()[1])}
        begun = time.monotonic()
        with pytest.raises(OperationalError, match="did not answer within"):
            pid_of(own)
        assert time.monotonic() - begun < RACE_SECONDS


def test_who_raises_the_servers_limit_waits_for_as_long(own: DatabaseWrapper) -> None:
    with patient(0.2), own.cursor() as cursor, pytest.raises(OperationalError, match="did not answer within"):
        cursor.execute("SELECT pg_sleep(2)")
    own.close()
    with patient(), own.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.4)")
    assert patience.seconds() > 30, "above the statement_timeout of the settings"
