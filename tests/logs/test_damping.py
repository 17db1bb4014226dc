"""What fails because the database or the broker fails is said in one line and not again and again; all else is said as ever."""

import logging
from collections.abc import Iterator

import pytest
import redis
from django.db import OperationalError

from broker_project import log_damping
from broker_project.log_damping import Damping


@pytest.fixture
def said() -> Iterator[list[str]]:
    """The lines of the logger `damped`, with their traces."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logging.Formatter("%(message)s").format(record))

    handler = Lines()
    handler.addFilter(Damping())
    loggers = [logging.getLogger(name) for name in ("damped", "django.request")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    yield lines
    for logger in loggers:
        logger.removeHandler(handler)
        logger.propagate = True


def fail(error: Exception) -> None:
    try:
        raise error
    except type(error):
        logging.getLogger("damped").exception("work %s failed", 7)


def test_a_failing_database_is_told_in_one_line_without_a_trace(said: list[str]) -> None:
    for _ in range(5):
        fail(OperationalError("connection refused\nIs the server running?"))
    assert said == ["work 7 failed: connection refused"]


def test_each_kind_of_failure_that_is_not_ours_is_damped(said: list[str]) -> None:
    fail(redis.TimeoutError("no answer"))
    assert said == ["work 7 failed: no answer"]


def test_what_was_left_out_is_counted_in_the_next_line(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("broker_project.log_damping.time.monotonic", lambda: now[0])
    for _ in range(3):
        fail(OperationalError("away"))
    now[0] += log_damping.REPEAT_SECONDS
    fail(OperationalError("away"))
    assert said == ["work 7 failed: away", "work 7 failed: away (and 2 more like it)"]


def test_a_mistake_of_ours_keeps_its_trace_each_time(said: list[str]) -> None:
    for _ in range(2):
        fail(ZeroDivisionError("ours"))
    assert len(said) == 2
    assert all("Traceback" in text for text in said)


def test_refusals_for_want_of_the_database_are_damped_and_other_answers_are_not(said: list[str]) -> None:
    logger = logging.getLogger("django.request")
    for status in (503, 503, 500, 500):
        logger.error("answered %s", status, extra={"status_code": status})
    assert said == ["answered 503", "answered 500", "answered 500"]
