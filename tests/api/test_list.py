"""GET /v1/jobs: newest first, filtered, page by page."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from jobs.models import Job
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of, pointers

pytestmark = pytest.mark.django_db


def ids(caller: Caller, query: str = "") -> list[str]:
    return [job["id"] for job in body_of(caller.get(f"/v1/jobs{query}"))["data"]]


def test_pages_follow_each_other_without_gap_or_repeat(caller: Caller) -> None:
    job_type = factories.make_job_type()
    made = [str(factories.submit(caller.tenant, job_type).pk) for _ in range(5)]
    seen, address, pages = [], "/v1/jobs?limit=2", 0
    while address:
        response = caller.get(address)
        page = body_of(response)
        seen += [job["id"] for job in page["data"]]
        pages += 1
        link = response.get("Link", "")
        assert (page["next_cursor"] is None) is (link == "")
        assert link == "" or link.endswith('>; rel="next"')
        address = link[1 : link.index(">")] if link else ""
    assert seen == made[::-1]
    assert pages == 3


def test_filters_narrow_the_list(caller: Caller) -> None:
    pending = factories.at("pending", tenant=caller.tenant)
    completed = factories.at("completed", tenant=caller.tenant)
    assert ids(caller, "?state=completed") == [str(completed.pk)]
    assert ids(caller, f"?type={pending.type.name}") == [str(pending.pk)]
    assert ids(caller, "?state=failed") == []
    now = datetime.now(UTC)
    assert ids(caller, f"?created_after={quote((now + timedelta(minutes=1)).isoformat())}") == []
    assert ids(caller, f"?created_after={quote((now - timedelta(minutes=1)).isoformat())}") == [
        str(completed.pk),
        str(pending.pk),
    ]


def test_a_cursor_stays_with_its_filters_and_its_tenant(caller: Caller) -> None:
    job_type = factories.make_job_type()
    for _ in range(3):
        factories.submit(caller.tenant, job_type)
    cursor = body_of(caller.get("/v1/jobs?limit=1"))["next_cursor"]
    assert caller.get(f"/v1/jobs?limit=2&cursor={cursor}").status_code == 200
    assert_problem(caller.get(f"/v1/jobs?limit=1&state=pending&cursor={cursor}"), 400, "malformed")
    assert_problem(caller.get(f"/v1/jobs?cursor={cursor}x"), 400, "malformed")
    assert_problem(caller.get("/v1/jobs?cursor=%00"), 400, "malformed")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "limit=%D9%A3", "state=done", "created_after=yesterday", "group=g",
              "type=%00", "metadata.k=v"]
)  # fmt: skip
def test_a_wrong_parameter_is_named(caller: Caller, query: str) -> None:
    problem = assert_problem(caller.get(f"/v1/jobs?{query}"), 422, "validation")
    assert pointers(problem) == [f"?{query.partition('=')[0]}"]


def test_a_list_shows_the_same_documents(caller: Caller) -> None:
    job = factories.at("completed", tenant=caller.tenant)
    (listed,) = body_of(caller.get("/v1/jobs"))["data"]
    assert listed == body_of(caller.get(f"/v1/jobs/{job.pk}"))
    assert Job.objects.count() == 1
