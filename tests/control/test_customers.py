"""Tenants in an operator's hands: keys issued and revoked, and what is told of them."""

import re

import pytest
from django.contrib.admin.models import LogEntry

from tenants import keys
from tenants.models import ApiKey, Tenant
from tests import factories
from tests.control.conftest import Operator

pytestmark = pytest.mark.django_db


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
