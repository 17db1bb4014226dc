"""POST /v1/jobs: what is accepted, what it answers, and every way to be refused."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.models import Job, JobMove, JobType
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of, pointers
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db
KEYS = {
    "id", "type", "state", "phase", "cancel_requested", "waiting_for", "queue", "progress", "result", "result_url",
    "error", "credits", "attempts", "created_at", "assigned_at", "started_at", "finished_at", "metadata", "urls",
    "version",
}  # fmt: skip


def test_a_job_is_accepted_held_and_told_where_it_is(caller: Caller, job_type: JobType) -> None:
    response = caller.submit(job_type, {"a": [1, 2.5, None, "ü"]}, metadata={"order": 7})
    job = body_of(response)
    assert response.status_code == 202
    assert response["Location"] == job["urls"]["self"] == f"/v1/jobs/{job['id']}"
    assert (response["Retry-After"], response["ETag"]) == ("1", '"1"')
    assert set(job) == KEYS
    assert (job["state"], job["waiting_for"], job["version"]) == ("pending", "session", 1)
    assert job["credits"] == {"held": "10.000000", "charged": "0.000000", "refunded": "0.000000"}
    assert job["metadata"] == {"order": 7}
    assert set(job["urls"]) == {"self", "cancel", "result", "events", "ledger"}
    assert Job.objects.get().payload == {"a": [1, 2.5, None, "ü"]}
    assert money(caller.tenant) == (1_000 * MICRO, 10 * MICRO)


def test_the_history_names_the_tenant(caller: Caller, job_type: JobType) -> None:
    caller.submit(job_type)
    assert JobMove.objects.get().actor == f"tenant:{caller.tenant.name}"


def test_every_field_is_kept(caller: Caller, job_type: JobType) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    fields = {"priority": 3, "run_at": later.isoformat(), "start_deadline": "2h", "max_price": "10.000000",
              "max_attempts": 2, "metadata": {"k": "v"}}  # fmt: skip
    response = caller.submit(job_type, **fields)
    assert body_of(response)["waiting_for"] == "run_at"
    assert int(response["Retry-After"]) == 60
    job = Job.objects.get()
    assert (job.priority, job.due_at, job.max_attempts, job.metadata) == (3, later, 2, {"k": "v"})
    assert job.start_deadline is not None
    assert timedelta(hours=1, minutes=59) < job.start_deadline - job.created_at <= timedelta(hours=2)


def test_what_is_null_was_not_said(caller: Caller, job_type: JobType) -> None:
    fields = dict.fromkeys(["priority", "run_at", "start_deadline", "max_price", "max_attempts", "metadata"])
    assert caller.submit(job_type, **fields).status_code == 202


def test_a_run_at_that_has_passed_runs_now(caller: Caller, job_type: JobType) -> None:
    assert body_of(caller.submit(job_type, run_at="2020-01-01T00:00:00Z"))["waiting_for"] == "session"


def test_a_quote_holds_nothing(caller: Caller, job_type: JobType) -> None:
    response = caller.post("/v1/jobs?validate_only=true", {"type": job_type.name, "payload": {}})
    assert (response.status_code, body_of(response)["price"]) == (200, "10.000000")
    assert not Job.objects.exists()
    assert money(caller.tenant) == (1_000 * MICRO, 0)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"tenant": 1}, "/tenant"),
        ({"group": "g"}, "/group"),
        ({"callback_url": "https://x.example"}, "/callback_url"),
        ({"follows": "x"}, "/follows"),
        ({"priority": "high"}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"priority": 1.5}, "/priority"),
        ({"priority": 10**6}, "/priority"),
        ({"run_at": "tomorrow"}, "/run_at"),
        ({"run_at": "2026-01-01T00:00:00"}, "/run_at"),
        ({"run_at": "2026-02-30T00:00:00Z"}, "/run_at"),
        ({"run_at": "9999-01-01T00:00:00Z"}, "/run_at"),
        ({"start_deadline": 10}, "/start_deadline"),
        ({"start_deadline": "10"}, "/start_deadline"),
        ({"start_deadline": "2020-01-01T00:00:00Z"}, "/start_deadline"),
        ({"start_deadline": "9" * 400 + "d"}, "/start_deadline"),
        ({"max_price": "much"}, "/max_price"),
        ({"max_price": -1}, "/max_price"),
        ({"max_price": "NaN"}, "/max_price"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"metadata": [1]}, "/metadata"),
        ({"metadata": {"k": "x" * 20_000}}, "/metadata"),
        ({"type": 5}, "/type"),
        ({"type": None}, "/type"),
        ({"payload": None}, "/payload"),
        ({"type": "no-such-type"}, "/type"),
    ],
)
def test_a_wrong_field_is_named(caller: Caller, job_type: JobType, fields: dict[str, Any], pointer: str) -> None:
    body = {"type": job_type.name, "payload": {}, **fields}
    problem = assert_problem(caller.post("/v1/jobs", body), 422, "validation")
    assert pointers(problem) == [pointer]
    assert not Job.objects.exists()


def test_all_faults_are_told_at_once(caller: Caller) -> None:
    problem = assert_problem(caller.post("/v1/jobs", {"priority": "x", "bla": 1}), 422, "validation")
    assert sorted(pointers(problem)) == ["/bla", "/payload", "/priority", "/type"]


def test_a_payload_that_breaks_the_schema_is_named(caller: Caller) -> None:
    schema = {"type": "object", "required": ["s"], "properties": {"s": {"type": "array", "items": {"type": "number"}}}}
    job_type = factories.make_job_type(payload_schema=schema)
    problem = assert_problem(caller.submit(job_type, {"s": [1, "x"]}), 422, "validation")
    assert pointers(problem) == ["/payload/s/1"]


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b"type=clip", 400, "malformed"),
        (b'{"type": "\xff"}', 400, "malformed"),
        (b'{"payload": NaN}', 400, "malformed"),
        (b'{"payload": ' + b"1" * 5000 + b"}", 400, "malformed"),
        (b"[]", 422, "validation"),
        (b'"text"', 422, "validation"),
        (b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422, "validation"),
    ],
)
def test_what_is_no_json_object_is_refused(caller: Caller, raw: bytes, status: int, code: str) -> None:
    assert_problem(caller.post("/v1/jobs", raw=raw), status, code)


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ('{"a": {"b": ["\\u0000"]}}', "/payload/a/b/0"),
        ('{"a~/": "x\\u0000"}', "/payload/a~0~1"),
        ('{"k\\u0000": 1}', "/payload"),
        ('{"a": "\\ud800"}', "/payload/a"),
        ('{"a": 1e999}', "/payload/a"),
        ('{"a":' * 63 + "[[]]" + "}" * 63, "/payload" + "/a" * 63),
    ],
)
def test_what_the_database_cannot_keep_is_named(caller: Caller, job_type: JobType, payload: str, pointer: str) -> None:
    raw = f'{{"type": "{job_type.name}", "payload": {payload}}}'.encode()
    problem = assert_problem(caller.post("/v1/jobs", raw=raw), 422, "validation")
    assert pointers(problem) == [pointer]


def test_a_deep_but_allowed_payload_is_kept(caller: Caller, job_type: JobType) -> None:
    payload = json.loads('{"a":' * 62 + "1" + "}" * 62)
    assert caller.submit(job_type, payload).status_code == 202
    assert Job.objects.get().payload == payload


def test_a_body_above_the_limit_is_refused_unread(caller: Caller) -> None:
    problem = assert_problem(caller.post("/v1/jobs", raw=b" " * (1024 * 1024 + 1)), 413, "payload-too-large")
    assert problem["limit"] == 1024 * 1024


def test_a_payload_above_the_types_limit_is_refused(caller: Caller) -> None:
    job_type = factories.make_job_type(max_payload_bytes=100)
    problem = assert_problem(caller.submit(job_type, {"a": "x" * 200}), 413, "payload-too-large")
    assert problem["limit"] == 100


def test_who_cannot_pay_is_told_what_is_missing(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    caller = caller_of(credits=9.5)
    problem = assert_problem(caller.submit(job_type), 402, "insufficient-credits")
    assert (problem["required"], problem["available"], problem["held"]) == ("10.000000", "9.500000", "0.000000")
    assert not Job.objects.exists()


def test_a_price_above_the_limit_is_refused(caller: Caller, job_type: JobType) -> None:
    problem = assert_problem(caller.submit(job_type, max_price=9.99), 422, "price-exceeds-max")
    assert (problem["price"], problem["max_price"]) == ("10.000000", "9.990000")


def test_a_tenant_submits_only_its_own_types(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    caller = caller_of(job_types=["another"])
    assert pointers(assert_problem(caller.submit(job_type), 422, "validation")) == ["/type"]


def test_an_unknown_parameter_is_named(caller: Caller, job_type: JobType) -> None:
    response = caller.post("/v1/jobs?validate=1", {"type": job_type.name, "payload": {}})
    assert pointers(assert_problem(response, 422, "validation")) == ["?validate"]
