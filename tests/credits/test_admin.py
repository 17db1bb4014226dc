"""The ledger can be looked at in the admin, and only looked at."""

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import reverse

from credits import ledger
from credits.models import Account, Balance, Hold, Transfer
from tests.credits.conftest import hold_one

MODELS = [Account, Balance, Hold, Transfer]


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_written(model: type, rf: RequestFactory) -> None:
    registered, request = admin.site._registry[model], rf.get("/")
    assert not registered.has_add_permission(request)
    assert not registered.has_change_permission(request)
    assert not registered.has_delete_permission(request)


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_every_list_and_row_opens(model: type, admin_client: Client) -> None:
    ledger.open_wallet(1)
    ledger.grant(1, 10, "invoice-1")
    hold_one(1, 5)
    name = model.__name__.lower()
    assert admin_client.get(reverse(f"admin:credits_{name}_changelist"), {"q": "1"}).status_code == 200
    row = model._default_manager.first()  # type: ignore[attr-defined]
    assert admin_client.get(reverse(f"admin:credits_{name}_change", args=[row.pk])).status_code == 200
