"""Credits of upstream accounts, debts and budgets at a real screen: every form, its effect, and where it is told."""

import pytest

from credits import ledger, upstream_accounts
from jobs import transitions
from tests import factories
from tests.factories import MICRO
from tests.pages.conftest import Operator
from upstream.calls import Outcome

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


def test_an_account_is_read_and_topped_up(operator: Operator) -> None:
    pool = factories.make_tracked_pool(100, name="video")
    account = pool.accounts.get()
    job = factories.submit(factories.make_tenant(name="acme"), factories.make_job_type(pool, name="clip", cost="7"))
    transitions.assign(pool.pk)
    factories.end(job, Outcome(over=True, verdict="succeeded", units=3, cost=8.5))
    operator.log_in()
    _open(operator, "Accounts", "acct-001")
    operator.sees("91.5 posted, 0 held, 91.5 available; 8.5 spent, 0 drift")
    operator.press("Take a reading")
    operator.page.fill("#id_amount", "0.5")
    operator.page.fill("#id_reason", "their page")
    operator.looks("reading-form")
    operator.press("Show the effect")
    operator.sees("-91 off, more than 18.3: kept, not booked")
    operator.looks("reading-effect")
    operator.press("Take a reading")
    operator.sees("too far to be believed, kept and not booked")
    operator.press("Take a reading")
    operator.page.fill("#id_amount", "0.5")
    operator.page.check("#id_book", force=True)
    operator.page.fill("#id_reason", "their support")
    operator.press("Show the effect")
    operator.sees("-91 off: 0.5 available")
    operator.looks("reading-booked-effect")
    operator.press("Take a reading")
    operator.sees("-91 booked as drift, 0.5 are available")
    operator.press("Book a top-up")
    operator.page.fill("#id_amount", "25")
    operator.page.fill("#id_reason", "invoice 3")
    operator.looks("top-up-form")
    operator.press("Show the effect")
    operator.press("Book a top-up")
    operator.sees("25 credits booked, 25.5 are available")
    operator.looks("account-with-credits")
    assert upstream_accounts.available(pool.pk, [account.pk]) == {account.pk: 25_500_000}

    operator.page.get_by_role("link", name="all readings").click()
    operator.sees("video/acct-001")
    operator.looks("readings")
    operator.choose("Balances")
    operator.sees("video/acct-001")
    operator.sees("acme")
    operator.looks("balances")
    operator.page.goto(f"{operator.address}/admin/jobs/job/{job.pk}/change/")
    operator.sees("Credits of upstream accounts")
    operator.looks("job-with-account-credits")


def test_a_debt_is_paid(operator: Operator) -> None:
    tenant = factories.make_tenant(name="acme", credits=50, day_budget=40 * MICRO)
    job = factories.at("assigned", factories.make_job_type(overrun="debt"), tenant)
    factories.end(job, Outcome(over=True, verdict="succeeded", units=15))
    operator.log_in()
    _open(operator, "Tenants", "acme")
    operator.sees("5 owed")
    operator.sees("Budgets (UTC)")
    operator.looks("tenant-with-debt")
    operator.press("Book a payment")
    operator.page.fill("#id_reason", "bank 17")
    operator.looks("payment-form")
    operator.press("Show the effect")
    operator.sees("owes 0, 40 available")
    operator.looks("payment-effect")
    operator.press("Book a payment")
    operator.sees("a payment of 5 booked, 0 are still owed")
    operator.looks("tenant-paid")
    assert ledger.balances(tenant.pk).owed == 0


def _open(operator: Operator, entry: str, row: str) -> None:
    """From the menu to the page of a row."""
    operator.choose(entry)
    operator.page.get_by_role("link", name=row).first.click()
    operator.page.wait_for_load_state()
