"""Credits that accounts have no more, at a real screen: the live page, lists and pages say so, and fit."""

import pytest

from broker_project.control import live_page
from credits import ledger
from jobs import transitions
from tests import factories
from tests.factories import MICRO
from tests.pages.conftest import Operator

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(autouse=True)
def _numbers_are_counted_anew() -> None:
    live_page.recent.forget()


def test_jobs_that_no_account_can_pay_for_are_seen_wherever_one_looks(operator: Operator) -> None:
    pool = factories.make_tracked_pool(15, 1_234.5, None, name="video", window=100)
    pool.accounts.filter(name="acct-003").get().resources.update(accepting=False)
    tenant = factories.make_tenant(credits=10_000, name="acme")
    job = factories.submit(tenant, factories.make_job_type(pool, name="clip", price="2000"))
    for _ in range(2):
        factories.submit(tenant, factories.make_job_type(pool, price="3000"))
    transitions.assign(pool.pk)
    operator.log_in()
    operator.sees("wait for credits")
    operator.looks("live-upstream-credits")
    operator.page.get_by_text("wait for credits").click()
    why = "waits for upstream credits: it costs 2,000, the richest account has 1,234.5"
    operator.page.get_by_text(why).first.wait_for(state="attached")
    operator.looks("jobs-upstream-credits")
    operator.page.goto(f"{operator.address}/admin/jobs/job/{job.pk}/change/")
    operator.sees(why)
    operator.looks("job-upstream-credits")
    operator.choose("Accounts")
    operator.page.get_by_text("1,234.5").first.wait_for(state="attached")
    operator.looks("accounts-credits-left")


def test_the_budgets_of_all_tenants_show_what_is_used(operator: Operator) -> None:
    ledger.set_ceiling(500 * MICRO, None)
    factories.at("completed", tenant=factories.make_tenant(name="acme"))
    operator.log_in()
    operator.choose("Budgets of all")
    operator.looks("ceiling-list")
    operator.page.get_by_role("link", name="budgets of all tenants").first.click()
    operator.sees("charged and held in this day (UTC)")
    operator.looks("ceiling")
