"""Tenants in an operator's hands: credits granted once, keys issued and revoked."""

import re

import pytest
from django.contrib.admin.models import LogEntry

from credits.models import Transfer
from tenants import keys
from tenants.models import ApiKey, Tenant
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db


def test_credits_are_granted_once_with_the_reason_kept(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=10)
    form = {"amount": "2.5", "kind": "grant_paid", "reason": "invoice 7"}
    shown = operator.effect("grant", tenant, **form)
    assert "10 available, 0 held" in shown
    assert "12.5 available" in shown
    assert money(tenant)[0] == 10 * MICRO, "looking changes nothing"
    page = operator.hidden("grant", tenant)
    assert "2.5 credits granted, 12.5 are available" in operator.do("grant", tenant, hidden=page, **form)
    assert "booked already" in operator.do("grant", tenant, hidden=page, **form)
    assert money(tenant)[0] == 12.5 * MICRO
    assert Transfer.objects.latest("id").code == "grant_paid"
    entry = LogEntry.objects.get()
    assert "invoice 7" in entry.get_change_message()
    assert entry.user.get_username() == "root"


@pytest.mark.parametrize("amount", ["0", "-1", "1.0000001", "1e20", "NaN", "many", ""])
def test_an_amount_that_is_none_is_refused(operator: Operator, amount: str) -> None:
    tenant = factories.make_tenant(credits=10)
    operator.do("grant", tenant, amount=amount, kind="grant_paid", reason="x")
    assert money(tenant)[0] == 10 * MICRO


def test_a_key_is_shown_once_and_works(operator: Operator) -> None:
    tenant = factories.make_tenant()
    assert "one more, for jobs:read" in operator.effect("issue-key", tenant, name="ci", scopes=["jobs:read"])
    hidden = operator.hidden("issue-key", tenant)
    page = operator.do("issue-key", tenant, hidden=hidden, name="ci", scopes=["jobs:read"])
    again = operator.do("issue-key", tenant, hidden=hidden, name="ci", scopes=["jobs:read"])
    assert "its key was shown then" in again
    assert ApiKey.objects.count() == 1
    shown = re.search(r"berth_\w+", page)
    assert shown is not None
    key = keys.verify(shown[0])
    assert key is not None
    assert (key.tenant, key.name, key.scopes) == (tenant, "ci", ["jobs:read"])
    assert shown[0] not in LogEntry.objects.get().get_change_message()
    assert shown[0] not in operator.page(tenant)


def test_a_revoked_key_is_refused(operator: Operator) -> None:
    secret = keys.issue(factories.make_tenant())
    key = ApiKey.objects.get()
    assert "revoked" in operator.effect("revoke", key)
    operator.do("revoke", key)
    keys.forget()
    assert keys.verify(secret) is None
    assert "it is revoked already" in operator.do("revoke", key)
    assert "Revoke" not in re.sub("Revoked", "", operator.page(key)), "the button is gone"


def test_the_page_of_a_tenant_tells_of_money_keys_and_jobs(operator: Operator) -> None:
    job = factories.at("completed")
    keys.issue(job.tenant, "ci")
    page = operator.page(job.tenant)
    for part in ("997 posted, 0 held", "grant_paid", "settle", "ci", str(job.pk)):
        assert part in page, part


def test_balances_are_found_by_the_tenants_name(operator: Operator) -> None:
    from credits.models import Balance

    tenant, _ = factories.make_tenant(name="findme"), factories.make_tenant()
    assert [balance.account.owner_id for balance in operator.found(Balance, "findme")] == [tenant.pk]
    assert operator.found(Tenant, "findme") == [tenant]
