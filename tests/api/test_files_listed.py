"""What a tenant keeps: its files in pages, newest first, and how many bytes they take."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from files.models import File
from jobs import results
from jobs.models import JobType
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of

pytestmark = pytest.mark.django_db


def sent(caller: Caller, content: bytes = b"123") -> str:
    return str(body_of(caller.send(content))["id"])


def test_files_are_listed_newest_first_in_pages(caller: Caller) -> None:
    files = [sent(caller) for _ in range(5)]
    found, address = [], "/v1/files?limit=2"
    while address:
        response = caller.get(address)
        page = body_of(response)
        found += [file["id"] for file in page["data"]]
        address = response.get("Link", "").partition(">")[0].removeprefix("<")
        assert bool(address) == (page["next_cursor"] is not None)
    assert found == files[::-1]
    assert body_of(caller.get("/v1/files"))["data"][0] == body_of(caller.get(f"/v1/files/{files[-1]}"))


def test_the_list_says_what_is_used_and_allowed(caller_of: Callable[..., Caller], settings: Any) -> None:
    caller = caller_of(max_file_bytes=10)
    assert body_of(caller.get("/v1/files")) == {
        "data": [], "next_cursor": None, "usage": {"input_bytes": 0, "result_bytes": 0, "max_input_bytes": 10}
    }  # fmt: skip
    sent(caller)
    assert body_of(caller.get("/v1/files"))["usage"] == {"input_bytes": 3, "result_bytes": 0, "max_input_bytes": 10}
    settings.TENANT_FILE_BYTES = 77
    assert body_of(caller_of().get("/v1/files"))["usage"]["max_input_bytes"] == 77


def test_results_that_are_files_are_listed_and_have_an_address(caller: Caller) -> None:
    job = factories.at("processing", tenant=caller.tenant)
    row = results.keep(job.id, io.BytesIO(b"image"), 5, "result", "image/png")
    mine = sent(caller)
    page = body_of(caller.get("/v1/files"))
    assert [(file["id"], file["kind"]) for file in page["data"]] == [(mine, "input"), (str(row["id"]), "result")]
    assert page["usage"]["result_bytes"] == 5
    assert [file["id"] for file in body_of(caller.get("/v1/files?kind=input"))["data"]] == [mine]
    content: Any = caller.get(results.mark(row)["url"])
    assert b"".join(content.streaming_content) == b"image"


def test_results_of_an_earlier_version_are_files_still() -> None:
    row = {"id": "0190c5d6-0000-7000-8000-000000000000", "content_type": "image/png", "size": 1, "sha256": "x"}
    mark = results.mark(row)
    assert results.file_of(mark) == results.file_of({name: mark[name] for name in mark if name != "url"}) is not None


def test_what_has_left_or_is_anothers_is_not_listed(caller_of: Callable[..., Caller]) -> None:
    caller, other = caller_of(), caller_of()
    kept, deleted, _ = sent(caller), sent(caller), sent(other)
    caller.delete(f"/v1/files/{deleted}")
    File.objects.create(tenant=caller.tenant, id="0190c5d6-0000-7000-8000-000000000000", kind="input", size=0, place="x",
                        expires_at="2099-01-01T00:00Z")  # fmt: skip
    assert [file["id"] for file in body_of(caller.get("/v1/files"))["data"]] == [kept]


@pytest.mark.parametrize("query", ["kind=odd", "limit=0", "limit=101", "state=pending"])
def test_a_wrong_query_is_refused(caller: Caller, query: str) -> None:
    assert_problem(caller.get(f"/v1/files?{query}"), 422, "validation")


def test_a_cursor_belongs_to_its_list(caller: Caller, job_type: JobType) -> None:
    for _ in range(2):
        sent(caller)
        caller.submit(job_type)
    of_files = body_of(caller.get("/v1/files?limit=1"))["next_cursor"]
    of_jobs = body_of(caller.get("/v1/jobs?limit=1"))["next_cursor"]
    for address in (
        f"/v1/jobs?cursor={of_files}",
        f"/v1/files?cursor={of_jobs}",
        f"/v1/files?kind=input&cursor={of_files}",
    ):
        assert_problem(caller.get(address), 400, "malformed")


def test_a_payload_too_large_is_told_where_it_may_go(caller: Caller) -> None:
    job_type = factories.make_job_type(max_payload_bytes=10)
    problem = assert_problem(caller.submit(job_type, {"text": "x" * 20}), 413, "payload-too-large")
    assert "POST /v1/files" in problem["detail"]
