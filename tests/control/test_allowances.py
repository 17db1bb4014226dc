"""Allowances in an operator's hands: added once, stopped, started again."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from credits.allowances import grant_allowances
from credits.models import Allowance
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db
MONTHLY = {
    "amount": "5",
    "every": "month",
    "category": "promo",
    "lifetime": "next",
    "priority": "20",
    "reason": "plan S",
}


@pytest.mark.usefixtures("within_one_day")
def test_an_allowance_is_added_once_and_granted(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    shown = operator.effect("add-allowance", tenant, **MONTHLY)
    assert "0 allowances" in shown
    assert "one more: 5 credits each month, promo, can be used until the next begins" in shown
    assert not Allowance.objects.exists(), "looking changes nothing"
    page = operator.hidden("add-allowance", tenant)
    operator.do("add-allowance", tenant, hidden=page, **MONTHLY)
    again = operator.do("add-allowance", tenant, hidden=page, **MONTHLY)
    assert "it has moved on since this page was made" in again
    allowance = Allowance.objects.get()
    assert (allowance.amount, allowance.every, allowance.category) == (5 * MICRO, "month", "promo")
    assert (allowance.lifetime_seconds, allowance.priority, allowance.enabled) == (0, 20, True)
    assert grant_allowances() == 1
    assert money(tenant)[0] == 15 * MICRO
    assert "plan S" in operator.page(allowance)
    page_of_tenant = operator.page(tenant)
    assert "until the next period yes" in page_of_tenant
    assert "5 credits each month" in page_of_tenant
    assert "plan S" in page_of_tenant


@pytest.mark.parametrize(
    ("form", "seconds"), [({"lifetime": "ever"}, None), ({"lifetime": "days", "days": "3"}, 3 * 86_400)]
)
def test_its_grants_live_as_long_as_it_says(operator: Operator, form: dict[str, str], seconds: int | None) -> None:
    operator.do("add-allowance", factories.make_tenant(), **{**MONTHLY, **form})
    assert Allowance.objects.get().lifetime_seconds == seconds


@pytest.mark.parametrize(
    ("form", "field", "said"),
    [
        ({"amount": "0"}, "amount", "greater than or equal to"),
        ({"every": "week"}, "every", "Select a valid choice"),
        ({"category": ""}, "category", "This field is required"),
        ({"lifetime": "days"}, "days", "How many days?"),
        ({"lifetime": "days", "days": "0"}, "days", "greater than or equal to 1"),
        ({"lifetime": "ever", "days": "3"}, "days", "Leave this empty"),
        ({"priority": "-1"}, "priority", "greater than or equal to 0"),
        ({"reason": ""}, "reason", "This field is required"),
    ],
)
def test_one_that_makes_no_sense_is_refused_at_its_field(
    operator: Operator, form: dict[str, str], field: str, said: str
) -> None:
    refused = operator.post("add-allowance", factories.make_tenant(), confirm="1", **{**MONTHLY, **form})
    assert list(refused.context["form"].errors) == [field]
    assert said in str(refused.context["form"].errors[field])
    assert not Allowance.objects.exists()


def test_it_is_stopped_and_started_again(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    allowance = _allowance(tenant)
    assert "running, not granted for this period yet" in operator.effect("stop", allowance, reason="left plan S")
    page = operator.hidden("stop", allowance)
    assert "nothing more is granted" in operator.do("stop", allowance, hidden=page, reason="left plan S")
    assert "it is stopped already" in operator.do("stop", allowance, hidden=page, reason="left plan S")
    assert grant_allowances() == 0
    assert "Enabled" in operator.page(tenant)
    assert "for ever no" in operator.page(tenant)
    for place in (allowance, tenant):
        assert operator.page(place).count("left plan S") == 1, place
    assert "event_busy" not in operator.page(allowance), "the button is gone"
    assert "stopped, not granted for this period yet" in operator.effect("start", allowance, reason="is back")
    operator.do("start", allowance, reason="is back")
    assert "it is running already" in operator.do("start", allowance, reason="is back")
    assert [grant_allowances(), grant_allowances()] == [1, 0]
    assert "running, granted for this period" in operator.effect("stop", allowance, reason="x")
    assert LogEntry.objects.count() == 4, "two deeds, at the allowance and at its tenant"


def test_one_who_does_not_pay_by_credits_gets_none(operator: Operator) -> None:
    tenant = factories.make_tenant(billing="none")
    assert "not done: it does not pay by credits" in operator.effect("add-allowance", tenant, **MONTHLY)
    assert "it does not pay by credits" in operator.do("add-allowance", tenant, **MONTHLY)
    assert not Allowance.objects.exists()


@pytest.mark.parametrize("operation", ["stop", "start"])
def test_a_reason_is_needed(operator: Operator, operation: str) -> None:
    allowance = _allowance(factories.make_tenant(), enabled=operation == "stop")
    refused = operator.post(operation, allowance, confirm="1", reason="")
    assert list(refused.context["form"].errors) == ["reason"]
    before = allowance.enabled
    allowance.refresh_from_db()
    assert allowance.enabled == before


def test_one_who_may_only_look_stops_nothing(onlooker: Callable[..., Operator]) -> None:
    allowance = _allowance(factories.make_tenant())
    looking = onlooker("view_allowance")
    assert "event_busy" not in looking.page(allowance)
    assert looking.open("stop", allowance).status_code == 403
    assert looking.post("stop", allowance, confirm="1", reason="x").status_code == 403
    allowance.refresh_from_db()
    assert allowance.enabled
    looking.may("view_allowance", "change_allowance")
    assert looking.open("stop", allowance).status_code == 200


def _allowance(tenant: Any, *, enabled: bool = True) -> Allowance:
    return Allowance.objects.create(tenant=tenant, amount=5 * MICRO, every="month", enabled=enabled)
