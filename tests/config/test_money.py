"""What the file says of money beyond opening grants: budgets, low credits, and what upstream accounts begin with."""

import pytest

from broker_project.config.findings import ConfigRefused
from credits import ledger, upstream_accounts
from pool.models import Pool, UpstreamAccount
from tenants.models import Tenant
from tests.config.conftest import Apply

pytestmark = pytest.mark.django_db
A1 = "pools.video.accounts.a1"


def test_budgets_and_the_low_mark_are_the_tenants(apply: Apply) -> None:
    apply(
        ("tenants.acme.budgets", {"day": 5, "month": 50.5}),
        ("tenants.acme.low_credits", {"below": 2, "submit_rate": "4/second"}),
    )
    tenant = Tenant.objects.get()
    assert (tenant.day_budget, tenant.month_budget) == (5_000_000, 50_500_000)
    assert (tenant.low_below, tenant.low_pause_ms) == (2_000_000, 250)
    apply()
    tenant.refresh_from_db()
    assert (tenant.day_budget, tenant.month_budget, tenant.low_below) == (None, None, None)


def test_budgets_of_all_tenants_stay_when_they_leave_the_file_until_it_is_pruned(apply: Apply) -> None:
    said = apply(("budgets", {"day": 100}))
    assert "budgets of all tenants: day 100" in said
    assert ledger.budgets(None).day == 100_000_000
    assert "nothing to change" in apply()
    assert ledger.budgets(None).day == 100_000_000
    assert "budgets of all tenants: none" in apply(prune=True)
    assert ledger.budgets(None).day is None


def test_the_credits_of_an_account_are_booked_once(apply: Apply) -> None:
    said = apply((f"{A1}.credits", 500))
    assert "account video/a1: tracked from now on, beginning with 500\n" in said
    account = UpstreamAccount.objects.get()
    assert upstream_accounts.available(account.pool_id, [account.pk]) == {account.pk: 500_000_000}
    assert Pool.objects.get().tracks_credits
    said = apply((f"{A1}.credits", 600))
    assert "  credits: 500 -> 600 (what it began with; 600 is not booked again (" in said
    assert upstream_accounts.available(account.pool_id, [account.pk]) == {account.pk: 500_000_000}


def test_an_account_whose_credits_leave_the_file_is_tracked_no_more(apply: Apply) -> None:
    apply((f"{A1}.credits", 500))
    said = apply()
    assert "account video/a1: not tracked any more" in said
    account = UpstreamAccount.objects.get()
    assert account.tracked_since is None
    assert "nothing to change" in apply()
    said = apply((f"{A1}.credits", 500))
    assert "account video/a1: tracked from now on\n" in said
    account.refresh_from_db()
    assert account.tracked_since is not None
    assert upstream_accounts.available(account.pool_id, [account.pk]) == {account.pk: 500_000_000}, "as it stood"


def test_a_cost_that_can_never_be_one_is_refused(apply: Apply) -> None:
    with pytest.raises(ConfigRefused, match=r"job_types.clip.cost: a price must be a number, not str"):
        apply(("job_types.clip.cost", "'four'"))


def test_an_account_that_begins_with_nothing_is_tracked_too(apply: Apply) -> None:
    apply((f"{A1}.credits", 0))
    account = UpstreamAccount.objects.get()
    assert upstream_accounts.available(account.pool_id, [account.pk]) == {account.pk: 0}
    assert "nothing to change" in apply((f"{A1}.credits", 0))


def test_the_line_of_a_grant_says_that_it_is_booked_once(apply: Apply) -> None:
    apply()
    said = apply(("tenants.acme.credits", 1000))
    assert "  credits: 100 -> 1000 (an opening grant, booked once as 100; 1000 is not granted again)\n" in said
    assert said.count("granted again") == 1
    said = apply(("tenants.acme.credits", 1000), ("tenants.acme.share", 2))
    assert "  tenant acme: credits is an opening grant, booked once as 100; 1000 is not granted again\n" in said
    assert "  credits: 1000 -> none (an opening grant is booked once and stays)\n" in apply(
        ("tenants.acme.credits", None), ("tenants.acme.share", 2)
    )
