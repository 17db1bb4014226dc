"""One submit, one job: the Idempotency-Key over HTTP."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from jobs import transitions
from jobs.models import Job, JobType
from tests.api.conftest import Caller, assert_problem, body_of
from tests.factories import money

KEY = "order-0000000001"


@pytest.mark.django_db
def test_the_same_request_again_is_answered_with_its_job(caller: Caller, job_type: JobType) -> None:
    first = caller.submit(job_type, {"a": 1, "b": 2}, idempotency_key=KEY)
    held = money(caller.tenant)
    again = caller.post("/v1/jobs", {"payload": {"b": 2, "a": 1}, "type": job_type.name}, Idempotency_Key=f'"{KEY}"')
    assert (first.status_code, again.status_code) == (202, 202)
    assert body_of(first)["id"] == body_of(again)["id"]
    assert first["Location"] == again["Location"]
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Key"] == KEY
    assert Job.objects.count() == 1
    assert money(caller.tenant) == held


@pytest.mark.django_db
def test_a_repeat_shows_the_job_as_it_stands(caller: Caller, job_type: JobType) -> None:
    caller.submit(job_type, idempotency_key=KEY)
    transitions.cancel(Job.objects.get().pk)
    again = caller.submit(job_type, idempotency_key=KEY)
    assert (again.status_code, body_of(again)["state"]) == (200, "cancelled")
    assert "Retry-After" not in again


@pytest.mark.django_db
def test_another_body_under_the_key_is_refused(caller: Caller, job_type: JobType) -> None:
    first = caller.submit(job_type, {"a": 1}, idempotency_key=KEY)
    problem = assert_problem(caller.submit(job_type, {"a": 2}, idempotency_key=KEY), 422, "idempotency-key-reused")
    assert problem["job_id"] == body_of(first)["id"]


@pytest.mark.django_db
def test_a_repeat_is_known_even_when_its_body_would_no_longer_pass(
    caller: Caller, job_type: JobType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs.api import submission

    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    first = caller.submit(job_type, run_at=tomorrow, idempotency_key=KEY)
    monkeypatch.setattr(submission, "FURTHEST", submission.FURTHEST * 0)  # as when a deadline has passed meanwhile
    again = caller.submit(job_type, run_at=tomorrow, idempotency_key=KEY)
    assert (again.status_code, body_of(again)["id"]) == (202, body_of(first)["id"])


@pytest.mark.django_db
def test_keys_of_two_tenants_are_two_keys(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    one, other = caller_of(), caller_of()
    ids = {body_of(caller.submit(job_type, idempotency_key=KEY))["id"] for caller in (one, other)}
    assert len(ids) == 2


@pytest.mark.django_db
def test_a_refused_request_leaves_its_key_free(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    caller = caller_of(credits=1)
    assert caller.submit(job_type, idempotency_key=KEY).status_code == 402
    free = {"type": job_type.name, "payload": {}, "bla": 1}
    assert caller.post("/v1/jobs", free, Idempotency_Key=KEY).status_code == 422
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_who_sends_no_key_is_given_one(caller: Caller, job_type: JobType) -> None:
    first = caller.submit(job_type)
    again = caller.submit(job_type, idempotency_key=first["Idempotency-Key"])
    assert body_of(again)["id"] == body_of(first)["id"]


@pytest.mark.django_db
def test_a_tenant_can_demand_keys(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    caller = caller_of(require_idempotency_key=True)
    assert_problem(caller.submit(job_type), 400, "idempotency-key-missing")
    assert caller.submit(job_type, idempotency_key=KEY).status_code == 202


@pytest.mark.django_db
@pytest.mark.parametrize(
    "key", ["short", "x" * 129, "has spaces in the middle", "ümlaut-0000000000", '"unclosed-000000000', ""]
)
def test_an_unusable_key_is_refused(caller: Caller, job_type: JobType, key: str) -> None:
    response = caller.post("/v1/jobs", {"type": job_type.name, "payload": {}}, Idempotency_Key=key)
    assert_problem(response, 400, "idempotency-key-invalid")


@pytest.mark.django_db(transaction=True)
def test_ten_at_once_with_one_key_make_one_job(caller: Caller, job_type: JobType) -> None:
    answers = []

    def send() -> None:
        try:
            answers.append(caller.submit(job_type, idempotency_key=KEY))
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {202}
    assert len({body_of(answer)["id"] for answer in answers}) == 1
    assert Job.objects.count() == 1
    assert money(caller.tenant)[1] == 10_000_000
