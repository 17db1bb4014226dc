"""The ledger can be looked at in the admin, and only looked at."""

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import reverse

from credits.models import Account, Allowance, Balance, Hold, Lot, Transfer
from tests.credits.conftest import hold_one
from tests.factories import make_tenant

MODELS = [Account, Allowance, Balance, Hold, Lot, Transfer]


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_written(model: type, rf: RequestFactory) -> None:
    registered, request = admin.site._registry[model], rf.get("/")
    assert not registered.has_add_permission(request)
    assert not registered.has_change_permission(request)
    assert not registered.has_delete_permission(request)


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_every_list_and_row_opens(model: type, admin_client: Client) -> None:
    tenant = make_tenant()
    Allowance.objects.create(tenant=tenant, amount=1, every="day")
    hold_one(tenant.pk, 5)
    name = model.__name__.lower()
    assert admin_client.get(reverse(f"admin:credits_{name}_changelist"), {"q": "tenant"}).status_code == 200
    row = model._default_manager.first()  # type: ignore[attr-defined]
    assert admin_client.get(reverse(f"admin:credits_{name}_change", args=[row.pk])).status_code == 200


@pytest.mark.django_db
def test_a_page_shows_amounts_in_credits(admin_client: Client) -> None:
    tenant = make_tenant(credits=12.5)
    lot = Lot.objects.get(account__owner_id=tenant.pk)
    page = admin_client.get(reverse("admin:credits_lot_change", args=[lot.pk])).content.decode()
    assert "12.5" in page
    assert "12500000" not in page
