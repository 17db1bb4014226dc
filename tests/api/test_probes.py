"""What machines ask: alive, ready, numbers, the OpenAPI document; and the operator's pages that show rows."""

import pytest
import redis
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test import Client

from jobs import redis_hints
from tests import factories
from tests.api.conftest import body_of


def test_alive_needs_nothing(client: Client) -> None:
    assert body_of(client.get("/healthz")) == {"status": "ok"}  # type: ignore[arg-type]


@pytest.mark.django_db
def test_ready_says_what_is_there(client: Client) -> None:
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "database": "ok", "broker": "ok"})


@pytest.mark.django_db
def test_redis_away_is_degraded_and_still_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_hints, "_client", redis.Redis.from_url("redis://127.0.0.1:1/0"))
    response = client.get("/readyz")
    assert (response.status_code, response.json()["status"], response.json()["broker"]) == (200, "degraded", "away")


def test_the_database_away_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "cursor", away)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["status"], response["Retry-After"]) == (503, "unavailable", "1")


@pytest.mark.django_db
def test_numbers_come_from_the_rows(client: Client) -> None:
    job = factories.at("processing")
    text = client.get("/metrics").content.decode()
    name = job.pool.name
    assert "berth_rows_read 1.0" in text
    assert f'berth_jobs{{pool="{name}",state="processing"}} 1.0' in text
    assert f'berth_sessions{{pool="{name}",state="busy"}} 1.0' in text
    assert f'berth_lag_seconds{{pool="{name}"}} 0.0' in text
    assert "berth_wakes_published" in text


def test_without_the_database_that_alone_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "ensure_connection", away)
    response = client.get("/metrics")
    text = response.content.decode()
    assert (response.status_code, "berth_rows_read 0.0" in text, "berth_jobs{" in text) == (200, True, False)
    assert "berth_wakes_published" in text


def test_the_document_and_its_page_need_no_key(client: Client) -> None:
    document = client.get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    page = client.get("/docs")
    assert (page.status_code, b"/v1/openapi.json" in page.content) == (200, True)


OURS = [
    model for model in admin.site._registry if model.__module__.split(".")[0] in ("jobs", "pool", "tenants", "webhooks")
]


@pytest.mark.django_db
@pytest.mark.parametrize("model", OURS, ids=[model.__name__ for model in OURS])
def test_an_operator_looks_and_cannot_touch(client: Client, model: type) -> None:
    factories.at("completed")
    client.force_login(get_user_model()._default_manager.create_superuser("root", "", "pw"))
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"  # type: ignore[attr-defined]
    assert client.get(base, {"q": "1"}).status_code == 200
    row = model.objects.order_by("pk").first()  # type: ignore[attr-defined]
    if row is not None:
        page = client.get(f"{base}{row.pk}/change/")
        assert page.status_code == 200
        assert b"sim-acct" not in page.content
        assert client.post(f"{base}{row.pk}/change/", {}).status_code == 403
    assert client.get(f"{base}add/").status_code == 403
