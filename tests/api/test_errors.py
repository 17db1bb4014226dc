"""Whatever goes wrong, the answer is a problem with a request id, and tells nothing of the inside."""

import pytest
from django.db import OperationalError

from broker_project.errors import PROBLEMS
from jobs.queries import reading
from tests.api.conftest import Caller, assert_problem


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v1/jobs/", "/v1"])
def test_an_unknown_address_is_a_problem(path: str) -> None:
    assert_problem(Caller(None, "").get(path), 404, "not-found")  # type: ignore[arg-type]


@pytest.mark.django_db
def test_a_method_that_is_not_taken_is_a_problem(caller: Caller) -> None:
    for method in ("put", "delete", "patch", "options"):
        response = getattr(caller.client, method)("/v1/jobs", headers={"Authorization": f"Bearer {caller.key}"})
        assert_problem(response, 405, "method-not-allowed")
        assert "POST" in response["Allow"]


def test_a_host_that_is_not_ours_is_a_problem(caller_without_key: Caller) -> None:
    response = caller_without_key.get("/healthz", Host="evil.example")
    problem = assert_problem(response, 400, "malformed")
    assert "evil" not in str(problem)


@pytest.fixture
def caller_without_key() -> Caller:
    return Caller(None, "")  # type: ignore[arg-type]


@pytest.mark.django_db
def test_a_crash_tells_nothing(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyError("the-secret-inside")

    monkeypatch.setattr(reading, "jobs", crash)
    response = caller.get("/v1/jobs")
    problem = assert_problem(response, 500, "internal")
    assert set(problem) == {"type", "title", "status", "code", "request_id"}
    assert b"secret" not in response.content


@pytest.mark.django_db
def test_a_database_that_is_away_is_worth_a_retry(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("connection to server at 10.0.0.7 failed")

    monkeypatch.setattr(reading, "jobs", away)
    response = caller.get("/v1/jobs")
    assert_problem(response, 503, "temporary-reduced-capacity")
    assert response["Retry-After"] == "1"
    assert b"10.0.0.7" not in response.content


@pytest.mark.parametrize(("sent", "kept"), [("order-1", True), ("x" * 129, False), ("a b", False), ("", False)])
def test_a_request_id_is_echoed_or_made(caller_without_key: Caller, sent: str, kept: bool) -> None:
    response = caller_without_key.get("/healthz", X_Request_Id=sent)
    assert (response["X-Request-Id"] == sent) is kept
    assert response["X-Request-Id"]


def test_the_type_of_a_problem_leads_to_its_meaning(caller_without_key: Caller) -> None:
    for code, kind in PROBLEMS.items():
        response = caller_without_key.get(f"/problems/{code}")
        assert response.status_code == 200
        assert kind.title in response.content.decode()
