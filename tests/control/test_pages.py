"""Every page of the admin answers, and says nothing that it must not."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from files.models import File, Usage
from tests import factories
from tests.control.conftest import Operator

pytestmark = pytest.mark.django_db
SHOWN = [model for model in admin.site._registry if model._meta.app_label != "auth"]


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model._meta.label)
def test_every_list_and_every_row_has_a_page(operator: Operator, model: type[Model]) -> None:
    factories.at("completed")
    factories.at("failed")
    names = model._meta
    address = reverse(f"admin:{names.app_label}_{names.model_name}_changelist")
    assert operator.client.get(address, {"q": "x"}).status_code == 200
    page = operator.client.get(address)
    assert page.status_code == 200
    for row in model._default_manager.all()[:2]:
        operator.page(row)
    assert operator.client.get(f"{address}add/").status_code == 403


def test_no_page_shows_a_sealed_credential_or_a_hash(operator: Operator) -> None:
    job = factories.at("processing")
    account = factories.session_of(job).account
    assert account.sealed_credential not in operator.page(account)
    assert account.credential not in operator.page(account)


def test_the_numbers_of_the_live_page(operator: Operator) -> None:
    from broker_project.control import live_page

    live_page.recent.forget()
    job = factories.at("processing")
    pools = operator.client.get("/admin/live").json()["pools"]
    (pool,) = [pool for pool in pools if pool["id"] == job.pool_id]
    session = factories.session_of(job)
    cells = [(cell["state"], cell["job"], cell["account_id"]) for cell in pool["grid"]]
    assert cells == [("busy", str(job.pk), session.account_id)]
    assert pool["utilisation"] == 1.0
    for number in (
        "depth",
        "lag_seconds",
        "oldest_waiting_seconds",
        "throughput_per_second",
        "dead_letters",
        "unknown",
    ):
        assert number in pool, number


@pytest.mark.parametrize("path", ["/admin/", "/admin/live", "/admin/jobs/job/", "/admin/jobs/job/do/replay?ids=1"])
def test_without_a_login_there_is_nothing_to_see(path: str) -> None:
    response = Client().get(path)
    assert response.status_code == 302
    assert "/admin/login/" in response["Location"]


def test_the_menu_has_what_one_may_see(onlooker: Callable[..., Operator]) -> None:
    page = onlooker("view_job").client.get("/admin/").content.decode()
    assert "Dead letters" in page
    assert "Transfers" not in page


def test_the_numbers_and_what_is_told_are_for_those_who_may_see_them(onlooker: Callable[..., Operator]) -> None:
    job = factories.at("failed")
    looking = onlooker("view_tenant")
    assert looking.client.get("/admin/live").status_code == 403
    page = looking.page(job.tenant)
    assert "posted" not in page
    assert str(job.pk) not in page
    assert looking.open("grant", job.tenant).status_code == 403


def test_sizes_of_files_have_readable_units(operator: Operator) -> None:
    tenant = factories.make_tenant()
    kept = {"tenant": tenant, "kind": "input", "content_type": "image/png", "expires_at": timezone.now()}
    file = File.objects.create(id=uuid4(), place="a", size=5_400_000, **kept)
    Usage.objects.create(tenant=tenant, input_bytes=5_400_000)
    assert "5.1 MB" in operator.page(file)
    assert "5.1 MB" in operator.listed(File)
    assert "5400000" not in operator.page(file)
    assert "5.1 MB" in operator.listed(Usage)
