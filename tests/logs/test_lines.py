"""Log lines: their fields in text and in JSON, an exception once, nothing that looks like a line of its own."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from django.conf import settings
from django.test import Client, RequestFactory, override_settings
from django.urls import path

from broker_project import logs
from broker_project.request_ids import RequestIds
from broker_project.urls import urlpatterns as ours
from statemachine.actors import current_actor, name_process
from tenants import keys
from tests import factories

logger = logging.getLogger("tests.lines")


class Written(logging.Handler):
    """Keeps what a handler with this formatter would have written."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.setFormatter(logs.formatter(form))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def written() -> Iterator[dict[str, list[str]]]:
    """What is written in each form, from here on."""
    handlers = {form: Written(form) for form in logs.FORMATS}
    for handler in handlers.values():
        logging.getLogger().addHandler(handler)
    structlog.contextvars.clear_contextvars()
    yield {form: handler.lines for form, handler in handlers.items()}
    structlog.contextvars.clear_contextvars()
    for handler in handlers.values():
        logging.getLogger().removeHandler(handler)


def test_a_line_carries_what_it_is_given_and_what_is_bound(written: dict[str, list[str]]) -> None:
    with structlog.contextvars.bound_contextvars(tenant="acme & sons", request_id="r-1"):
        logger.warning("%s jobs failed", 2, extra={"job": "j-1", "pool": "clips"})
    (text,), (line,) = written["text"], written["json"]
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT[\d:.]+Z WARNING tests\.lines 2 jobs failed request_id=r-1 job=j-1"
        r" tenant=\"acme & sons\" pool=clips role=\S+",
        text,
    )
    found = json.loads(line)
    assert {name: found[name] for name in ("level", "logger", "event", "job", "pool", "tenant", "request_id")} == {
        "level": "warning",
        "logger": "tests.lines",
        "event": "2 jobs failed",
        "job": "j-1",
        "pool": "clips",
        "tenant": "acme & sons",
        "request_id": "r-1",
    }
    assert list(found)[:4] == ["timestamp", "level", "logger", "event"]


def test_a_line_says_of_which_process_it_is(written: dict[str, list[str]]) -> None:
    before = current_actor()
    name_process("worker:upstream@host")
    try:
        logger.warning("here")
    finally:
        name_process(before)
    assert json.loads(written["json"][0])["role"] == "worker:upstream"


def test_what_nobody_declared_is_left_out(written: dict[str, list[str]]) -> None:
    logger.warning("refused", extra={"request": object(), "status_code": 400})
    assert "request" not in json.loads(written["json"][0])


def test_no_message_makes_a_second_line(written: dict[str, list[str]]) -> None:
    forged = "x\n2030-01-01T00:00:00Z INFO jobs all is well"
    logger.warning("a path: %s", forged, extra={"pool": forged})
    try:
        raise ValueError(forged)
    except ValueError:
        logger.exception("failed")
    for line in "\n".join(written["text"]).splitlines():
        assert not line.startswith("2030")
    assert all(len(line.splitlines()) == 1 for line in written["json"])


def test_an_exception_stands_on_its_line_once(written: dict[str, list[str]]) -> None:
    try:
        raise ZeroDivisionError("no such number")
    except ZeroDivisionError:
        logger.exception("not divided", extra={"job": "j-1"})
    (text,) = written["text"]
    assert text.count("ZeroDivisionError: no such number") == 1
    assert text.splitlines()[0].endswith(f"not divided job=j-1 role={json.loads(written['json'][0])['role']}")
    assert "ZeroDivisionError: no such number" in json.loads(written["json"][0])["exception"]


def test_the_supervisor_reads_that_a_worker_is_ready(written: dict[str, list[str]]) -> None:
    logging.getLogger("celery.apps.worker").info("upstream@some-host ready.")
    for form in logs.FORMATS:
        assert re.search(r"@\S+ ready\.", written[form][0])


def test_what_uvicorn_set_up_before_is_taken_over_and_requests_make_no_line() -> None:
    code = """
import logging, logging.config
from uvicorn.config import LOGGING_CONFIG
logging.config.dictConfig(LOGGING_CONFIG)
import django; django.setup()
logging.getLogger("uvicorn.error").info("served")
print(logging.getLogger("uvicorn.access").hasHandlers())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"\S+Z INFO uvicorn\.error served role=-c", line)
    assert done.stdout == "False\n"


def test_a_task_is_told_by_its_job_its_pool_or_how_many_there_are() -> None:
    assert logs.fields_of_task("jobs.finish", [["j-1"]]) == {"task": "jobs.finish", "job": "j-1"}
    assert logs.fields_of_task("jobs.finish", [["j-1", "j-2"]]) == {"task": "jobs.finish", "count": 2}
    assert logs.fields_of_task("jobs.promote", [3, [1, 2]]) == {"task": "jobs.promote", "pool": 3}
    assert logs.fields_of_task("jobs.sweep", []) == {"task": "jobs.sweep"}


def crash(_request: Any) -> None:
    raise ZeroDivisionError("a crash")


urlpatterns = [path("crash", crash), *ours]


@override_settings(ROOT_URLCONF="tests.logs.test_lines")
def test_a_crash_is_written_once_with_the_id_of_its_request(written: dict[str, list[str]]) -> None:
    response = Client(raise_request_exception=False).get("/crash", headers={"X-Request-Id": "request-7"})
    assert (response.status_code, response["X-Request-Id"]) == (500, "request-7")
    crashes = [json.loads(line) for line in written["json"] if "ZeroDivisionError" in line]
    assert [(line["logger"], line["request_id"]) for line in crashes] == [("django.request", "request-7")]


@pytest.mark.django_db
def test_the_tenant_is_known_once_its_key_is(written: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.api import account

    def fail() -> None:
        raise ZeroDivisionError("a crash")

    tenant = factories.make_tenant()
    monkeypatch.setattr(account.recent, "rows", fail)
    key = keys.issue(tenant)
    response = Client(raise_request_exception=False).get("/v1/pools", headers={"Authorization": f"Bearer {key}"})
    assert response.status_code == 500
    (line,) = [json.loads(line) for line in written["json"] if "ZeroDivisionError" in line]
    assert (line["tenant"], line["request_id"]) == (tenant.name, response["X-Request-Id"])
    assert key not in "".join(written["text"] + written["json"])


def test_nothing_of_a_request_is_left_for_the_next(written: dict[str, list[str]]) -> None:
    def answer(_request: Any) -> Any:
        structlog.contextvars.bind_contextvars(tenant="acme")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        RequestIds(answer)(RequestFactory().get("/"))
    logger.warning("later")
    assert not {"tenant", "request_id"} & set(json.loads(written["json"][-1]))
