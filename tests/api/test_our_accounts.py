"""What upstreams say of our accounts is ours: a tenant reads that it was refused, an operator reads what was said."""

from dataclasses import replace

import pytest
from django.conf import settings

from jobs import asking, transitions
from jobs.models import Evidence, Job
from tests import db, factories
from tests.api.conftest import Caller, body_of
from tests.control.conftest import (
    Operator,
    operator,  # noqa: F401  a fixture
)
from tests.factories import HOLDER, NO_KEY, attempt_of
from tests.jobs.health_world import World, answer
from tests.jobs.test_asking import MAX_RUNTIME_SECONDS, poll_type
from tests.jobs.test_health_refused import move_on
from upstream.calls import Outcome
from webhooks.models import Event

pytestmark = pytest.mark.django_db
SECRET = "key sk-live-77 of billing@ours.example is unpaid"
REFUSED = replace(NO_KEY, error_code="http_401", error_message=SECRET)
GENERAL = {"code": "upstream_refused", "message": "the upstream refused the account that the job ran with"}


def told(caller: Caller, job: Job) -> str:
    """All that a tenant can read of it, and is sent."""
    address = f"/v1/jobs/{job.pk}"
    pages = [caller.get(f"{address}{page}").content.decode() for page in ("", "/attempts", "/result", "/moves")]
    return "".join(
        [*pages, caller.get("/v1/jobs").content.decode(), *(str(event.body) for event in Event.objects.all())]
    )


def test_a_refused_account_is_not_described_to_the_tenant_whose_job_met_it(caller: Caller) -> None:
    world = World(accounts=2)
    world.tenant = caller.tenant
    (job,) = world.on(0)
    answer([job], REFUSED)
    (attempt,) = body_of(caller.get(f"/v1/jobs/{job.pk}/attempts"))["data"]
    assert (attempt["verdict"], attempt["error"]) == ("not_executed", GENERAL)
    assert SECRET not in told(caller, job)


def test_a_job_that_two_accounts_refused_says_no_more(caller: Caller, operator: Operator) -> None:  # noqa: F811
    world = World(accounts=3)
    world.tenant = caller.tenant
    (job,) = world.on(0)
    answer([job], REFUSED)
    move_on(world, job)
    answer([job], REFUSED)
    error = body_of(caller.get(f"/v1/jobs/{job.pk}"))["error"]
    assert error == {**GENERAL, "retryable": False}
    attempts = body_of(caller.get(f"/v1/jobs/{job.pk}/attempts"))["data"]
    assert [attempt["error"] for attempt in attempts] == [GENERAL, GENERAL]
    text = told(caller, job)
    assert "sk-live-77" not in text
    assert "http_401" not in text
    job.refresh_from_db()
    assert f"http_401: {SECRET}" in operator.page(job)
    assert "http_401: key sk-live-77" in operator.listed(Job, only="dead_letters")
    assert SECRET in operator.page(attempt_of(job))
    assert Evidence.objects.filter(content__error_message=SECRET).count() == 2


@pytest.mark.parametrize("code", ["http_401", "credential"])
def test_what_could_not_be_asked_for_want_of_a_credential_says_no_more(caller: Caller, code: str) -> None:
    job = factories.at("assigned", poll_type(), caller.tenant)
    factories.learn(factories.dispatch(job), Outcome(over=False, verdict="", status=202, reference="task-1"))
    for seconds in (2, settings.LEASE_SECONDS + MAX_RUNTIME_SECONDS):
        db.let_time_pass(seconds)
        (flight,) = asking.verify([job.pk], HOLDER)
        unknown = Outcome(over=False, verdict="unknown", error_class="auth", error_code=code, error_message=SECRET)
        factories.learn(flight, unknown)
        (attempt,) = body_of(caller.get(f"/v1/jobs/{job.pk}/attempts"))["data"]
        assert attempt["error"] == GENERAL
    db.let_time_pass(700)
    assert asking.verify([job.pk], HOLDER) == []
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert job.error == {"code": "outcome_unknown", "message": GENERAL["message"], "retryable": False}
    assert SECRET not in told(caller, job)
    assert attempt_of(job).error_message == SECRET


def test_what_the_upstream_says_of_the_request_is_told(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    factories.end(job, replace(factories.REJECTED, error_message="no such style"))
    assert body_of(caller.get(f"/v1/jobs/{job.pk}"))["error"]["message"] == "no such style"
