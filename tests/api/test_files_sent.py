"""What a file of a payload is sent as: an object, its address, or nothing where it has none."""

import time
from typing import Any

import pytest

from files.models import File
from jobs import asking, calls, inputs, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.models import Attempt
from tests import factories
from tests.api.conftest import Caller, assert_problem
from tests.api.test_files import CONTENT, bytes_of, expire_all, sent
from tests.db import execute, let_time_pass

pytestmark = pytest.mark.django_db
TRIAL = inputs.token_for_trial(60)


@pytest.fixture(autouse=True)
def _upstreams_reach_us(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def test_expressions_see_where_the_file_is(caller: Caller, settings: Any) -> None:
    file = sent(caller)
    seen = inputs.as_sent({"images": [{"file": file}], "n": 1}, TRIAL, False)
    (image,) = seen["images"]
    assert {**image, "url": ""} == {
        "file": file, "url": "", "name": "", "content_type": "image/png", "size": len(CONTENT)
    }  # fmt: skip
    address = image["url"].removeprefix("https://berth.example")
    assert bytes_of(Caller(None, "").get(address)) == CONTENT  # type: ignore[arg-type]
    assert inputs.unsendable(seen) is None
    settings.PUBLIC_URL = ""
    left = inputs.as_sent({"image": {"file": file}}, TRIAL, False)
    assert (left, inputs.unsendable(left)) == ({"image": {"file": file}}, (inputs.NO_ADDRESS, inputs.NO_PUBLIC_URL))
    settings.PUBLIC_URL = "https://berth.example"
    expire_all()
    left = inputs.as_sent({"file": file}, TRIAL, False)
    assert (left, (inputs.unsendable(left) or ("",))[0]) == ({"file": file}, "file_gone")


def test_where_a_type_wants_addresses_a_reference_is_replaced_by_one(caller: Caller) -> None:
    file = sent(caller)
    seen = inputs.as_sent({"input": {"images": [{"file": file}], "mask": {"file": file}}}, TRIAL, True)["input"]
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


def with_file(caller: Caller, file: str, *, attempts: int = 3) -> Flight:
    """The first sending of a job with this file, to an upstream that deduplicates and has not answered."""
    upstream = {"mode": "sync", "submit": {"path": "'/run'", "idempotent": True}}
    job_type = factories.make_job_type(upstream=upstream, retry={"attempts": attempts})
    flight = factories.dispatch(factories.at("assigned", job_type, caller.tenant, payload={"image": {"file": file}}))
    factories.learn(flight, factories.CUT)
    return flight


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """By the clock of this process too."""
    let_time_pass(seconds)
    now = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: now)


def path_of(flight: Flight) -> str:
    url: str = calls.call_of(flight).payload["image"]["url"]
    return url.removeprefix("https://berth.example")


@pytest.mark.django_db(transaction=True)
def test_a_repeat_has_the_same_address_to_the_letter_however_late_it_goes_out(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = with_file(caller, sent(caller))
    before = calls.call_of(first)
    later(monkeypatch, 3)
    (again,) = asking.verify([first.job_id], factories.HOLDER)
    assert (again.action, again.repeat) == ("submit", True)
    moved = {**again.row, "over_ms": 60_000 + again.row["over_ms"]}  # what `apply` changes meanwhile
    late = calls.call_of(Flight(again.attempt_id, again.fence, again.job_id, again.resource_id, moved))
    assert (late.key, late.payload) == (before.key, before.payload)


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_sent_again_after_a_restore_has_the_same_address(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = with_file(caller, sent(caller))
    before = calls.call_of(first)
    later(monkeypatch, 600)
    row = {**first.row, "attempt_id": first.attempt_id + 2**34}
    after = calls.call_of(Flight(first.attempt_id + 2**34, first.fence + 7, first.job_id, first.resource_id, row))
    assert (after.key, after.payload) == (before.key, before.payload)


@pytest.mark.django_db(transaction=True)
def test_an_address_is_good_for_as_long_as_its_job_goes_on_and_an_hour_longer(caller: Caller) -> None:
    file, nobody = sent(caller), Caller(None, "")  # type: ignore[arg-type]
    flight = with_file(caller, file, attempts=1)
    path = path_of(flight)
    let_time_pass(7 * 86_400)
    assert bytes_of(nobody.get(path)) == CONTENT, "who knows how long it waits for a session"
    transitions.learn([Finding.waited_out(flight)])
    transitions.finish([flight.job_id])
    assert Attempt.objects.get().ended_at is not None
    let_time_pass(inputs.GRACE_SECONDS - 60)
    assert bytes_of(nobody.get(path)) == CONTENT
    let_time_pass(61)
    assert_problem(nobody.get(path), 401, "unauthenticated")


@pytest.mark.django_db(transaction=True)
def test_an_address_of_a_job_leads_to_its_file_alone(caller: Caller) -> None:
    file, other = sent(caller), sent(caller)
    path = path_of(with_file(caller, file))
    nobody = Caller(None, "")  # type: ignore[arg-type]
    assert_problem(nobody.get(path.replace(file, other)), 401, "unauthenticated")
    token = path.partition("token=")[2]
    for wrong in (token[:-1], token.partition(".")[0], f"{File.objects.get(pk=other).pk}.{token.partition('.')[2]}"):
        assert_problem(nobody.get(path.replace(token, wrong)), 401, "unauthenticated")


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
