"""Files over HTTP: sent, looked at, fetched, deleted, referred to; bounded, counted, apart."""

import hashlib
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse

from files import tokens
from files.models import File, Reference, Usage
from jobs import inputs, keeping, transitions
from jobs.models import Job, JobType
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of, pointers
from tests.db import execute

pytestmark = pytest.mark.django_db
CONTENT = b"\x89PNG and more"


@pytest.fixture(autouse=True)
def _upstreams_reach_us(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def sent(caller: Caller, content: bytes = CONTENT) -> str:
    """The id of a new file."""
    response = caller.send(content)
    assert response.status_code == 201, response.content
    return str(body_of(response)["id"])


def bytes_of(response: HttpResponse) -> bytes:
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


def expire_all() -> None:
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")
    keeping.clean_files()


def test_a_file_is_sent_looked_at_and_fetched(caller: Caller) -> None:
    response = caller.send(CONTENT, query="?name=cat.png")
    document = body_of(response)
    assert response["Location"] == f"/v1/files/{document['id']}"
    assert document["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    shown = {name: document[name] for name in ("size", "content_type", "name")}
    assert shown == {"size": len(CONTENT), "content_type": "image/png", "name": "cat.png"}
    assert body_of(caller.get(f"/v1/files/{document['id']}")) == document
    fetched = caller.get(f"/v1/files/{document['id']}/content")
    assert (fetched.status_code, bytes_of(fetched)) == (200, CONTENT)
    assert fetched["Content-Type"] == "image/png"
    assert fetched["Content-Length"] == str(len(CONTENT))
    assert fetched["Content-Disposition"] == 'attachment; filename="cat.png"'
    assert fetched["X-Content-Type-Options"] == "nosniff"
    assert fetched["Cache-Control"] == "private, no-store"


def test_a_form_with_one_file_is_a_file(caller: Caller) -> None:
    headers = {"Authorization": f"Bearer {caller.key}"}
    form = {"file": SimpleUploadedFile("../../etc/ca t.png", CONTENT, "image/png")}
    response = caller.client.post("/v1/files", form, headers=headers)
    assert response.status_code == 201, response.content
    document = body_of(response)  # type: ignore[arg-type]
    assert (document["name"], document["content_type"], document["size"]) == ("ca t.png", "image/png", len(CONTENT))
    two = {"a": SimpleUploadedFile("a", b"1"), "b": SimpleUploadedFile("b", b"2")}
    for other in (two, {"text": "no file"}):
        assert_problem(caller.client.post("/v1/files", other, headers=headers), 422, "validation")  # type: ignore[arg-type]
    broken = caller.send(b"--x no form", "multipart/form-data")
    assert_problem(broken, 400, "malformed")


def test_what_cannot_be_said_again_is_no_type(caller: Caller) -> None:
    for odd in ("image/png\x7f", "no type", "", "a/" + "b" * 300):
        assert body_of(caller.send(CONTENT, odd))["content_type"] == "application/octet-stream"


def test_a_file_is_neither_empty_nor_too_large(caller: Caller, settings: Any) -> None:
    settings.MAX_FILE_BYTES = 4
    empty = {"file": SimpleUploadedFile("a", b"")}
    form_of_none = caller.client.post("/v1/files", empty, headers={"Authorization": f"Bearer {caller.key}"})
    for response in (caller.send(b""), form_of_none):
        problem = assert_problem(response, 422, "validation")  # type: ignore[arg-type]
        assert problem["errors"][0]["detail"] == "the file is empty"
    assert not File.objects.exists()
    assert caller.send(b"1234").status_code == 201
    assert assert_problem(caller.send(b"12345"), 413, "payload-too-large")["limit"] == 4
    form = {"file": SimpleUploadedFile("a", b"12345")}
    response = caller.client.post("/v1/files", form, headers={"Authorization": f"Bearer {caller.key}"})
    assert_problem(response, 413, "payload-too-large")  # type: ignore[arg-type]


@pytest.mark.parametrize("query", ["?nam=x", "?name=a%00b", "?name=" + "x" * 256])
def test_a_wrong_query_is_refused(caller: Caller, query: str) -> None:
    assert_problem(caller.send(CONTENT, query=query), 422, "validation")


def test_a_tenant_keeps_no_more_than_it_may(caller_of: Callable[..., Caller]) -> None:
    caller = caller_of(max_file_bytes=len(CONTENT))
    first = sent(caller)
    problem = assert_problem(caller.send(CONTENT), 429, "quota-exceeded")
    assert (problem["quota"], problem["limit"], problem["used"]) == ("file bytes", len(CONTENT), len(CONTENT))
    assert caller.delete(f"/v1/files/{first}").status_code == 204
    sent(caller)


def test_a_deleted_file_is_gone(caller: Caller) -> None:
    file = sent(caller)
    assert caller.delete(f"/v1/files/{file}").status_code == 204
    for method, address in ((caller.get, ""), (caller.get, "/content"), (caller.delete, "")):
        assert_problem(method(f"/v1/files/{file}{address}"), 410, "gone")
    assert Usage.objects.get(tenant=caller.tenant).input_bytes == 0


def test_an_expired_file_is_gone(caller: Caller) -> None:
    file = sent(caller)
    expire_all()
    assert_problem(caller.get(f"/v1/files/{file}/content"), 410, "gone")


def test_lost_bytes_are_told(caller: Caller) -> None:
    file = sent(caller)
    row = File.objects.get(pk=file)
    row_path = factories_storage_path(row.place)
    row_path.unlink()
    assert_problem(caller.get(f"/v1/files/{file}/content"), 410, "gone")


def factories_storage_path(place: str) -> Any:
    from pathlib import Path

    from django.core.files.storage import default_storage

    return Path(default_storage.path(place))


def test_anothers_file_is_as_absent_as_none(caller_of: Callable[..., Caller], job_type: JobType) -> None:
    owner, other = caller_of(), caller_of()
    file = sent(owner)
    for method, address in (("get", "{}"), ("get", "{}/content"), ("delete", "{}")):
        answers = [
            getattr(other, method)("/v1/files/" + address.format(wanted), X_Request_Id="same")
            for wanted in (file, uuid4(), "no-id")
        ]
        for answer in answers:
            assert_problem(answer, 404, "not-found")
        assert len({answer.content for answer in answers}) == 1
    problem = assert_problem(other.submit(job_type, {"image": {"file": file}}), 422, "validation")
    assert pointers(problem) == ["/payload/image/file"]
    assert Reference.objects.count() == 0
    assert owner.get(f"/v1/files/{file}").status_code == 200


def test_an_address_with_a_token_needs_no_key(caller: Caller) -> None:
    file = sent(caller)
    nobody = Caller(None, "")  # type: ignore[arg-type]
    address = f"/v1/files/{file}/content"
    good = tokens.for_seconds(File.objects.get(pk=file).pk, 60)
    assert bytes_of(nobody.get(f"{address}?token={good}")) == CONTENT
    other = File.objects.get(pk=sent(caller)).pk
    wrong = [
        tokens.for_seconds(other, 60),
        tokens.for_seconds(File.objects.get(pk=file).pk, -1),
        good[:-1],
        "",
        "x",
        f"9{good}",
    ]
    for token in wrong:
        assert_problem(nobody.get(f"{address}?token={token}"), 401, "unauthenticated")
    assert_problem(nobody.get(f"/v1/files/no-id/content?token={good}"), 401, "unauthenticated")
    assert_problem(nobody.get(f"/v1/files/{file}?token={good}"), 401, "unauthenticated")


def test_a_payload_may_refer_to_files(caller: Caller, job_type: JobType) -> None:
    file = sent(caller)
    payload = {"images": [{"file": file}, {"file": file}], "text": "x"}
    job = body_of(caller.submit(job_type, payload))
    assert Job.objects.get(pk=job["id"]).payload == payload
    assert [str(found.file_id) for found in Reference.objects.filter(job_id=job["id"])] == [file]


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ({"file": str(uuid4())}, "/payload/file"),
        ({"a": [1, {"file": "no-id"}]}, "/payload/a/1/file"),
        ({"a/b~": {"file": str(uuid4()).upper()}}, "/payload/a~1b~0/file"),
    ],
)
def test_an_unknown_file_is_named_by_its_place(caller: Caller, job_type: JobType, payload: Any, pointer: str) -> None:
    problem = assert_problem(caller.submit(job_type, payload), 422, "validation")
    assert pointers(problem) == [pointer]
    quote = caller.post("/v1/jobs?validate_only=true", {"type": job_type.name, "payload": payload})
    assert pointers(assert_problem(quote, 422, "validation")) == [pointer]
    assert not Job.objects.exists()


def test_other_objects_with_such_a_member_are_none(caller: Caller, job_type: JobType) -> None:
    for payload in ({"file": "a.txt", "mode": "r"}, {"file": 7}, {"file": {"name": "x"}}):
        assert caller.submit(job_type, payload).status_code == 202


def test_an_expired_file_cannot_be_referred_to(caller: Caller, job_type: JobType) -> None:
    file = sent(caller)
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")
    problem = assert_problem(caller.submit(job_type, {"file": file}), 422, "validation")
    assert problem["errors"][0]["detail"] == "the file has expired"


def test_too_many_files_are_refused(caller: Caller, job_type: JobType) -> None:
    payload = [{"file": sent(caller)}] * (inputs.MOST_FILES + 1)
    problem = assert_problem(caller.submit(job_type, {"all": payload}), 422, "validation")
    assert pointers(problem) == [f"/payload/all/{inputs.MOST_FILES}/file"]


def test_the_schema_sees_the_reference_as_it_stands(caller: Caller) -> None:
    image = {"type": "object", "required": ["file"], "additionalProperties": False, "properties": {"file": {}}}
    job_type = factories.make_job_type(payload_schema={"type": "object", "properties": {"image": image}})
    assert caller.submit(job_type, {"image": {"file": sent(caller)}}).status_code == 202
    assert_problem(caller.submit(job_type, {"image": "none"}), 422, "validation")


def test_what_a_job_needs_neither_expires_nor_is_deleted(caller: Caller) -> None:
    file = sent(caller)
    job = factories.at("assigned", tenant=caller.tenant, payload={"file": file})
    expire_all()
    assert caller.get(f"/v1/files/{file}").status_code == 200
    problem = assert_problem(caller.delete(f"/v1/files/{file}"), 409, "file-in-use")
    assert problem["job_id"] == str(job.pk)
    factories.end(job, factories.SUCCESS)
    expire_all()
    assert_problem(caller.get(f"/v1/files/{file}"), 410, "gone")


def test_a_replay_needs_its_files_still(caller: Caller) -> None:
    file = sent(caller)
    job = factories.at("failed", tenant=caller.tenant, payload={"file": file})
    assert caller.post(f"/v1/jobs/{job.pk}/replay").status_code == 202
    transitions.cancel(job.pk)
    caller.delete(f"/v1/files/{file}")
    assert_problem(caller.post(f"/v1/jobs/{job.pk}/replay"), 409, "not-replayable")
    job.refresh_from_db()
    assert (job.state, job.run) == ("cancelled", 2)
