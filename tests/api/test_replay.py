"""POST /v1/jobs/{id}/replay: a failed or cancelled job runs again, held anew."""

import pytest

from jobs.models import JobMove
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_it_runs_again_with_a_hold_of_its_own(caller: Caller, state: str) -> None:
    job = factories.at(state, tenant=caller.tenant)
    response = caller.post(f"/v1/jobs/{job.pk}/replay")
    document = body_of(response)
    assert (response.status_code, document["state"], document["credits"]["held"]) == (202, "pending", "10.000000")
    assert response["ETag"] == f'"{document["version"]}"'
    assert response["Retry-After"] == "1"
    assert money(caller.tenant)[1] == 10 * MICRO
    assert JobMove.objects.latest("id").actor == f"tenant:{caller.tenant.name}"
    moves = body_of(caller.get(f"/v1/jobs/{job.pk}/moves"))["data"]
    assert (moves[-1]["from"], moves[-1]["to"], moves[-1]["cause"]) == (state, "pending", "replay")


@pytest.mark.parametrize("state", ["pending", "processing", "completed"])
def test_what_has_not_failed_is_a_conflict(caller: Caller, state: str) -> None:
    job = factories.at(state, tenant=caller.tenant)
    problem = assert_problem(caller.post(f"/v1/jobs/{job.pk}/replay"), 409, "not-replayable")
    assert problem["state"] == state
    assert state in problem["detail"]


def test_without_credits_it_says_what_is_missing(caller: Caller) -> None:
    job = factories.at("failed", factories.make_job_type(price="600", settle=""), caller.tenant)
    factories.submit(caller.tenant, job.type)
    problem = assert_problem(caller.post(f"/v1/jobs/{job.pk}/replay"), 402, "insufficient-credits")
    assert (problem["required"], problem["available"]) == ("600.000000", "400.000000")


def test_only_the_version_that_was_seen(caller: Caller) -> None:
    job = factories.at("failed", tenant=caller.tenant)
    address = f"/v1/jobs/{job.pk}/replay"
    problem = assert_problem(caller.post(address, If_Match='"1"'), 412, "version-changed")
    assert problem["version"] == job.version
    assert_problem(caller.post(address, If_Match="seven"), 400, "malformed")
    assert caller.post(address, If_Match=f'"{job.version}"').status_code == 202


def test_another_tenants_job_is_not_found(caller: Caller) -> None:
    job = factories.at("failed")
    assert_problem(caller.post(f"/v1/jobs/{job.pk}/replay"), 404, "not-found")


def test_a_key_that_may_only_read_may_not(caller_of: object) -> None:
    caller = caller_of(scopes=("jobs:read",))  # type: ignore[operator]
    job = factories.at("failed", tenant=caller.tenant)
    assert_problem(caller.post(f"/v1/jobs/{job.pk}/replay"), 403, "forbidden-scope")
