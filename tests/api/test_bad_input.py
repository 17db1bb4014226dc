"""Bad input over a real connection to the real web process: a clear problem that names the fault, and nothing stored."""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job, JobType
from tenants import keys
from tenants.models import ApiKey
from tests import db, factories
from tests.api.conftest import Caller
from tests.api.servers import HOST, WebAndLive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
TEN_MB = 10 * 1024 * 1024
Headers = dict[str, str]


class Wire:
    """Sends bytes to web and reads one answer."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, headers: Headers, body: bytes, *, chunked: bool = False) -> tuple[int, dict[str, Any]]:
        """The status and the document; a server that has heard enough may close while we still send."""
        sent = {"Host": HOST, "Connection": "close", "Content-Type": "application/json", **headers}
        sent |= {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
        head = "POST /v1/jobs HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items()) + "\r\n"
        with socket.create_connection((HOST, self.port), timeout=20) as wire:
            with suppress(ConnectionError):
                wire.sendall(head.encode("latin-1"))
                wire.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body)
            answer = b"".join(iter(lambda: wire.recv(65536), b""))
        status, _, rest = answer.partition(b"\r\n")
        return int(status.split()[1]), json.loads(rest.partition(b"\r\n\r\n")[2])


@pytest.fixture
def wire(servers: WebAndLive) -> Wire:
    return Wire(servers.ports["web"])


@pytest.fixture
def submit(caller: Caller, job_type: JobType) -> tuple[Headers, dict[str, Any]]:
    """Headers and body of a submit that would be accepted."""
    return {"Authorization": f"Bearer {caller.key}"}, {"type": job_type.name, "payload": {}}


def test_what_is_right_is_accepted(wire: Wire, submit: tuple[Headers, dict[str, Any]]) -> None:
    headers, body = submit
    assert wire.ask(headers, json.dumps(body).encode())[0] == 202
    assert Job.objects.count() == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused(wire: Wire, submit: tuple[Headers, dict[str, Any]], chunked: bool) -> None:
    headers, body = submit
    before = db.everything()
    large = json.dumps({**body, "payload": {"text": "x" * TEN_MB}}).encode()
    status, problem = wire.ask(headers, large, chunked=chunked)
    assert (status, problem["code"], problem["limit"]) == (413, "payload-too-large", 1024 * 1024)
    assert db.everything() == before


def _deep(body: dict[str, Any]) -> bytes:
    return json.dumps(body).replace('"payload": {}', '"payload": ' + '{"a":' * 5_000 + "1" + "}" * 5_000).encode()


@dataclass(frozen=True)
class Bad:
    """A body made from a good one, and the problem it must meet."""

    name: str
    make: Callable[[dict[str, Any]], bytes]
    status: int
    code: str
    pointer: str | None = None


def _with(**fields: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda body: json.dumps({**body, **fields}).encode()


BODIES = [
    Bad("unknown field", _with(colour="red"), 422, "validation", "/colour"),
    Bad("wrong type", _with(priority="high"), 422, "validation", "/priority"),
    Bad("unknown job type", _with(type="nope"), 422, "validation", "/type"),
    Bad("malformed JSON", lambda body: json.dumps(body).encode()[:-1], 400, "malformed"),
    Bad("5,000 deep", _deep, 422, "validation"),
    Bad("NUL in a string", _with(payload={"prompt": "a\0b"}), 422, "validation", "/payload/prompt"),
    Bad("not an object", lambda _: b"[1]", 422, "validation", ""),
]


@pytest.mark.parametrize("bad", BODIES, ids=[bad.name for bad in BODIES])
def test_a_bad_body_is_named_and_nothing_is_stored(
    wire: Wire, submit: tuple[Headers, dict[str, Any]], bad: Bad
) -> None:
    headers, body = submit
    before = db.everything()
    status, problem = wire.ask(headers, bad.make(body))
    assert (status, problem["code"]) == (bad.status, bad.code)
    if bad.pointer is not None:
        assert [fault["pointer"] for fault in problem["errors"]] == [bad.pointer]
    assert db.everything() == before


def test_without_a_key_or_with_a_revoked_one_nothing_is_done(
    wire: Wire, submit: tuple[Headers, dict[str, Any]]
) -> None:
    headers, body = submit
    ApiKey.objects.update(revoked_at=timezone.now())
    before = db.everything()
    for sent in ({}, headers, {"Authorization": "Bearer berth_x"}):
        status, problem = wire.ask(sent, json.dumps(body).encode())
        assert (status, problem["code"]) == (401, "unauthenticated")
    assert db.everything() == before


def test_a_reused_key_names_the_first_job(wire: Wire, submit: tuple[Headers, dict[str, Any]]) -> None:
    headers, body = submit
    headers["Idempotency-Key"] = "the-key-of-this-job-1"
    wire.ask(headers, json.dumps(body).encode())
    before = db.everything()
    status, problem = wire.ask(headers, json.dumps({**body, "payload": {"other": 1}}).encode())
    assert (status, problem["code"]) == (422, "idempotency-key-reused")
    assert problem["job_id"] == str(Job.objects.get().pk)
    assert db.everything() == before


def test_who_cannot_pay_is_told_how_much_is_missing(wire: Wire, job_type: JobType) -> None:
    tenant = factories.make_tenant(credits=4)
    before = db.everything()
    headers = {"Authorization": f"Bearer {keys.issue(tenant)}"}
    status, problem = wire.ask(headers, json.dumps({"type": job_type.name, "payload": {}}).encode())
    assert (status, problem["code"]) == (402, "insufficient-credits")
    assert (problem["required"], problem["available"], problem["held"]) == ("10.000000", "4.000000", "0.000000")
    assert db.everything() == before
