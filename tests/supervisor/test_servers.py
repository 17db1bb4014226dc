"""The servers of one `up`: a database of the operator's own is waited for, and its absence is said."""

from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from rich.console import Console

from broker_project.supervisor import servers
from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.secrets import load_or_make
from broker_project.supervisor.watch import Watch


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    monkeypatch.setattr(servers, "THEIR_SECONDS", 0.3)
    return StringIO()


def start(home: Path, told: StringIO) -> dict[str, str]:
    watch = Watch(home, Console(file=told))
    return servers.start_servers(watch, home, load_or_make(home), {"postgres", "valkey"})


def test_servers_that_the_operator_brought_are_not_started(tmp_path: Path, told: StringIO) -> None:
    urls = start(tmp_path, told)

    assert urls["REDIS_URL"] == settings.REDIS_URL
    assert told.getvalue() == ""
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.json"]


def test_a_database_that_does_not_answer_is_waited_for_and_then_named(
    tmp_path: Path, told: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://user:secret@127.0.0.1:1/name")

    with pytest.raises(StartFailed, match=r"the database that DATABASE_URL names does not answer: .*refused") as failed:
        start(tmp_path, told)

    assert told.getvalue().count("is waited for") == 1
    assert "secret" not in str(failed.value) + told.getvalue()
