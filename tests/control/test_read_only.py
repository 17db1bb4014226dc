"""Rows of money are looked at: no address of the admin adds, changes or deletes one, whoever asks."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.urls import reverse

from credits import ledger, upstream_accounts
from credits.models import (
    Account,
    Allowance,
    Balance,
    Ceiling,
    Hold,
    HoldLot,
    HoldReview,
    HoldWalk,
    Lot,
    Reading,
    Transfer,
)
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO

pytestmark = pytest.mark.django_db
NO_PAGE = {HoldLot, HoldReview, HoldWalk}
MONEY = [model for model in admin.site._registry if model._meta.app_label == "credits"]


def test_the_models_of_money_are_those_of_the_ledger() -> None:
    assert {*MONEY} >= {Account, Allowance, Balance, Ceiling, Hold, Lot, Reading, Transfer}
    assert {*apps.get_app_config("credits").get_models()} - {*MONEY} <= NO_PAGE


@pytest.mark.parametrize("model", MONEY, ids=lambda model: model._meta.label)
def test_money_is_neither_added_nor_changed_nor_deleted(operator: Operator, model: type[Model]) -> None:
    job = factories.at("completed")
    Allowance.objects.create(tenant=job.tenant, amount=MICRO, every="day")
    account = factories.make_tracked_pool(5).accounts.get()
    upstream_accounts.read(account.pool_id, account.pk, 4 * MICRO, "r1")
    ledger.set_ceiling(10**12, None)
    row = model._default_manager.latest("pk")
    before = list(_contents())
    for address in _addresses(model, row):
        assert operator.client.post(address, {**_form_of(row), "post": "yes", "_save": "Save"}).status_code == 403, (
            address
        )
        if not address.endswith("change/"):
            assert operator.client.get(address).status_code == 403, address
    page = operator.client.get(_address(model, "change", row.pk)).content.decode()
    assert 'name="_save"' not in page
    for action in ("delete_selected", "delete"):
        chosen = {"action": action, "_selected_action": [str(row.pk)], "post": "yes"}
        operator.client.post(_address(model, "changelist"), chosen, follow=True)
    edited = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": str(row.pk), "_save": "Save"}
    operator.client.post(
        _address(model, "changelist"), {**edited, **{f"form-0-{k}": v for k, v in _form_of(row).items()}}
    )
    assert list(_contents()) == before


def _addresses(model: type[Model], row: Model) -> list[str]:
    return [_address(model, "add"), _address(model, "change", row.pk), _address(model, "delete", row.pk)]


def _address(model: type[Model], page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def _form_of(row: Model) -> dict[str, str]:
    """What a form of this row would send, its numbers changed."""
    return {field.name: "77" for field in row._meta.concrete_fields if not field.primary_key}


def _contents() -> Iterator[list[tuple[object, ...]]]:
    """Every row of every table of money."""
    with connection.cursor() as cursor:
        for model in apps.get_app_config("credits").get_models():
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}" ORDER BY 1, 2')
            yield cursor.fetchall()
