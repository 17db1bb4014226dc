"""What a file of a payload is sent as: an object, its address, or nothing where it has none."""

from typing import Any

import pytest

from jobs import calls, inputs, transitions
from tests import factories
from tests.api.conftest import Caller, assert_problem
from tests.api.test_files import CONTENT, bytes_of, expire_all, sent
from tests.db import execute

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _upstreams_reach_us(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def test_expressions_see_where_the_file_is(caller: Caller, settings: Any) -> None:
    file = sent(caller)
    seen = inputs.as_sent({"images": [{"file": file}], "n": 1}, 60, False)
    (image,) = seen["images"]
    assert {**image, "url": ""} == {
        "file": file, "url": "", "name": "", "content_type": "image/png", "size": len(CONTENT)
    }  # fmt: skip
    address = image["url"].removeprefix("https://berth.example")
    assert bytes_of(Caller(None, "").get(address)) == CONTENT  # type: ignore[arg-type]
    assert inputs.unsendable(seen) is None
    settings.PUBLIC_URL = ""
    left = inputs.as_sent({"image": {"file": file}}, 60, False)
    assert (left, inputs.unsendable(left)) == ({"image": {"file": file}}, (inputs.NO_ADDRESS, inputs.NO_PUBLIC_URL))
    settings.PUBLIC_URL = "https://berth.example"
    expire_all()
    left = inputs.as_sent({"file": file}, 60, False)
    assert (left, (inputs.unsendable(left) or ("",))[0]) == ({"file": file}, "file_gone")


def test_where_a_type_wants_addresses_a_reference_is_replaced_by_one(caller: Caller) -> None:
    file = sent(caller)
    seen = inputs.as_sent({"input": {"images": [{"file": file}], "mask": {"file": file}}}, 60, True)["input"]
    for address in (seen["images"][0], seen["mask"]):
        path = address.removeprefix("https://berth.example")
        assert bytes_of(Caller(None, "").get(path)) == CONTENT  # type: ignore[arg-type]


@pytest.mark.parametrize(("files", "kind"), [(None, dict), ("object", dict), ("url", str)])
@pytest.mark.django_db(transaction=True)
def test_a_job_is_sent_with_files_as_its_type_wants_them(caller: Caller, files: str | None, kind: type) -> None:
    upstream = {"mode": "sync", "submit": {"path": "'/run'"}, "files": files}
    job = factories.at(
        "assigned", factories.make_job_type(upstream=upstream), caller.tenant, payload={"image": {"file": sent(caller)}}
    )
    call = calls.call_of(factories.dispatch(job))
    assert isinstance(call.payload["image"], kind)


@pytest.mark.parametrize("files", ["object", "url"])
def test_without_an_address_of_ours_no_file_is_referred_to(caller: Caller, settings: Any, files: str) -> None:
    settings.PUBLIC_URL = ""
    upstream = {"mode": "sync", "submit": {"path": "'/run'"}, "files": files}
    job_type = factories.make_job_type(upstream=upstream)
    problem = assert_problem(caller.submit(job_type, {"image": {"file": sent(caller)}}), 422, "validation")
    assert problem["errors"] == [{"pointer": "/payload/image/file", "detail": inputs.NO_PUBLIC_URL}]
    assert caller.submit(job_type, {"image": "none"}).status_code == 202


@pytest.mark.django_db(transaction=True)
def test_a_job_whose_file_has_no_address_any_more_is_not_sent(caller: Caller, settings: Any) -> None:
    job = factories.at("assigned", tenant=caller.tenant, payload={"image": {"file": sent(caller)}})
    settings.PUBLIC_URL = ""
    calls.dispatch([job.id])
    transitions.finish([job.id])
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "no_file_address")  # type: ignore[index]


@pytest.mark.django_db(transaction=True)
def test_a_job_whose_file_is_gone_is_not_sent(caller: Caller) -> None:
    file = sent(caller)
    job = factories.at("assigned", tenant=caller.tenant, payload={"image": {"file": file}})
    execute("DELETE FROM files_reference")  # which no verb would
    expire_all()
    calls.dispatch([job.id])
    transitions.finish([job.id])
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "file_gone")  # type: ignore[index]
