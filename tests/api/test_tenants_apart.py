"""Another tenant's id is a 404 everywhere, byte for byte the same as one that never was."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of

pytestmark = pytest.mark.django_db
ADDRESSES = [
    ("get", "/v1/jobs/{}"),
    ("get", "/v1/jobs/{}?wait=5"),
    ("get", "/v1/jobs/{}/result"),
    ("get", "/v1/jobs/{}/moves"),
    ("get", "/v1/jobs/{}/attempts"),
    ("post", "/v1/jobs/{}/cancel"),
]


@pytest.mark.parametrize(("method", "address"), ADDRESSES)
def test_anothers_job_is_as_absent_as_none(caller_of: Callable[..., Caller], method: str, address: str) -> None:
    owner, other = caller_of(), caller_of()
    job = factories.at("completed", tenant=owner.tenant)
    own = getattr(owner, method)(address.format(job.pk))
    assert own.status_code == 200
    answers = [
        getattr(other, method)(address.format(wanted), X_Request_Id="same")
        for wanted in (job.pk, uuid4(), "no-id", "0", "%00")
    ]
    for answer in answers:
        assert_problem(answer, 404, "not-found")
    assert len({answer.content for answer in answers}) == 1
    assert len({str(sorted(answer.headers.items())) for answer in answers}) == 1


def test_a_list_shows_only_ones_own(caller_of: Callable[..., Caller]) -> None:
    owner, other = caller_of(), caller_of()
    factories.at("pending", tenant=owner.tenant)
    assert body_of(other.get("/v1/jobs"))["data"] == []


def test_a_cursor_gives_no_rights(caller_of: Callable[..., Caller]) -> None:
    owner, other = caller_of(), caller_of()
    job_type = factories.make_job_type()
    for _ in range(2):
        factories.submit(owner.tenant, job_type)
    cursor = body_of(owner.get("/v1/jobs?limit=1"))["next_cursor"]
    assert_problem(other.get(f"/v1/jobs?limit=1&cursor={cursor}"), 400, "malformed")


def test_a_tenant_sees_only_its_types_and_their_pools(caller_of: Callable[..., Caller]) -> None:
    open_type, closed_type = factories.make_job_type(), factories.make_job_type()
    caller = caller_of(job_types=[open_type.name])
    assert [found["name"] for found in body_of(caller.get("/v1/job-types"))["data"]] == [open_type.name]
    assert [found["name"] for found in body_of(caller.get("/v1/pools"))["data"]] == [open_type.pool.name]
    assert closed_type.accepting
