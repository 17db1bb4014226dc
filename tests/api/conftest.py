"""A tenant's program: a client with a key, and tenants to be one."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve

from jobs.api import account, metrics, restored
from jobs.models import JobType
from tenants import keys
from tenants.models import Tenant
from tests import factories
from tests.api.servers import WebAndLive


class Caller:
    """Speaks JSON with the key of a tenant."""

    def __init__(self, tenant: Tenant, key: str) -> None:
        self.tenant, self.key = tenant, key
        self.client = Client(raise_request_exception=False)

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.client.get(path, headers=self._with_key(headers))  # type: ignore[return-value]

    def post(self, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> HttpResponse:
        content = json.dumps(body).encode() if raw is None else raw
        return self.client.post(path, content, content_type="application/json", headers=self._with_key(headers))  # type: ignore[return-value]

    def send(self, content: bytes, content_type: str = "image/png", query: str = "", **headers: str) -> HttpResponse:
        """A file, as the body itself."""
        return self.client.post(
            f"/v1/files{query}", content, content_type=content_type, headers=self._with_key(headers)
        )  # type: ignore[return-value]

    def delete(self, path: str, **headers: str) -> HttpResponse:
        return self.client.delete(path, headers=self._with_key(headers))  # type: ignore[return-value]

    def submit(self, job_type: JobType, payload: Any = None, **fields: Any) -> HttpResponse:
        """`idempotency_key` goes into the header, everything else into the body."""
        headers = {"Idempotency-Key": key} if (key := fields.pop("idempotency_key", None)) else {}
        body = {"type": job_type.name, "payload": {} if payload is None else payload, **fields}
        return self.post("/v1/jobs", body, **headers)

    def _with_key(self, headers: dict[str, str]) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return own | {name.replace("_", "-"): value for name, value in headers.items()}


def body_of(response: HttpResponse) -> Any:
    return json.loads(response.content)


def assert_problem(response: HttpResponse, status: int, code: str) -> Any:
    """The answer is this problem, whole; returns it."""
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json"), response.content
    problem = body_of(response)
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert problem["type"].endswith(f"/problems/{code}")
    assert problem["title"]
    assert problem["request_id"] == response["X-Request-Id"]
    _assert_listed(response, status, code)
    return problem


def _assert_listed(response: HttpResponse, status: int, code: str) -> None:
    """The OpenAPI document says that this call may answer so."""
    asked = response.request  # type: ignore[attr-defined]
    try:
        address = re.sub(r"<\w+:(\w+)>", r"{\1}", f"/{resolve(asked['PATH_INFO']).route}")
    except Resolver404:
        return
    operation = openapi()["paths"].get(address, {}).get(asked["REQUEST_METHOD"].lower())
    if operation is not None:
        assert code in operation["responses"][str(status)]["description"].split(", "), (address, code)


@cache
def openapi() -> Any:
    return json.loads((settings.BASE_DIR / "docs" / "openapi.json").read_text())


def pointers(problem: Any) -> list[str]:
    return [fault["pointer"] for fault in problem["errors"]]


@pytest.fixture(autouse=True)
def _nothing_is_kept_from_the_test_before() -> None:
    keys.forget()
    account.recent.forget()
    restored.recent.forget()
    for kept in (metrics.recent, metrics.recent_server, metrics.recent_health, metrics.recent_redrives):
        kept.forget()


@pytest.fixture
def caller_of() -> Callable[..., Caller]:
    """A caller with a key of this tenant, or of a new one with 1,000 credits."""

    def make(tenant: Tenant | None = None, scopes: tuple[str, ...] = keys.DEFAULT_SCOPES, **fields: Any) -> Caller:
        tenant = tenant or factories.make_tenant(**fields)
        return Caller(tenant, keys.issue(tenant, scopes=scopes))

    return make


@pytest.fixture
def caller(caller_of: Callable[..., Caller]) -> Caller:
    return caller_of()


@pytest.fixture
def job_type() -> JobType:
    return factories.make_job_type()


@pytest.fixture(scope="package")
def servers(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebAndLive]:
    """Web and live as real processes."""
    started = WebAndLive(tmp_path_factory.mktemp("servers"))
    try:
        yield started
    finally:
        started.stop_all()
