"""POST /v1/jobs/{id}/cancel: never an error for coming too late."""

import pytest

from jobs.models import JobMove
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.factories import money

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", ["pending", "assigned", "backing_off"])
def test_a_job_that_was_not_sent_is_cancelled_now(caller: Caller, state: str) -> None:
    job = factories.at(state, tenant=caller.tenant)
    response = caller.post(f"/v1/jobs/{job.pk}/cancel")
    assert (response.status_code, body_of(response)["state"]) == (200, "cancelled")
    assert money(caller.tenant)[1] == 0
    assert JobMove.objects.latest("id").actor == f"tenant:{caller.tenant.name}"


def test_a_running_job_is_asked_to_end(caller: Caller) -> None:
    job = factories.at("processing", tenant=caller.tenant)
    version = body_of(caller.get(f"/v1/jobs/{job.pk}"))["version"]
    for _ in range(2):
        response = caller.post(f"/v1/jobs/{job.pk}/cancel")
        document = body_of(response)
        assert (response.status_code, document["state"], document["cancel_requested"]) == (202, "processing", True)
        assert document["version"] == version + 1


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_too_late_is_no_error(caller: Caller, state: str) -> None:
    job = factories.at(state, tenant=caller.tenant)
    before = money(caller.tenant)
    response = caller.post(f"/v1/jobs/{job.pk}/cancel")
    assert (response.status_code, body_of(response)["state"]) == (200, state)
    assert money(caller.tenant) == before
