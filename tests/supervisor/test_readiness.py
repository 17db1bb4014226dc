"""How the supervisor knows whether a broker answers, and what a worker does already."""

import socket
import sys
from pathlib import Path

import pytest
from django.conf import settings

from broker_project.supervisor import readiness
from broker_project.supervisor.processes import Entry
from broker_project.supervisor.spawn import Role


def test_a_redis_answers_a_ping() -> None:
    assert readiness.broker_answers(settings.REDIS_URL)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "amqp://guest@127.0.0.1:1//"])
def test_where_nobody_listens_nobody_answers(url: str) -> None:
    assert not readiness.broker_answers(url)


def test_a_redis_that_takes_connections_and_says_nothing_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        assert not readiness.broker_answers(f"redis://127.0.0.1:{deaf.getsockname()[1]}/0")


def test_another_broker_answers_by_taking_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        assert readiness.broker_answers(f"amqp://guest@127.0.0.1:{there.getsockname()[1]}//")


def test_a_broker_that_cannot_be_asked_from_here_is_believed() -> None:
    assert readiness.broker_answers("sqs://")


def test_a_worker_works_before_it_takes_messages(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("an earlier process: upstream@host ready.\n")
    entry = Entry(Role("worker-upstream", [sys.executable, "-c", "pass"], {}, log))
    entry.start()
    assert entry.process is not None
    entry.process.wait()
    states = [(readiness.worker_sweeps(entry), readiness.worker_takes_messages(entry))]
    for line in ("upstream@host sweeps. role=worker", "upstream@host ready. role=worker"):
        with log.open("a") as file:
            file.write(f"2026-11-30 INFO celery.apps.worker {line}\n")
        states.append((readiness.worker_sweeps(entry), readiness.worker_takes_messages(entry)))
    assert states == [(False, False), (True, False), (True, True)]
