"""What operators see of credits at a glance: why a job waits for them, what an account has left, what all budgets used."""

from collections.abc import Callable

import pytest

from credits import ledger
from credits.models import Ceiling
from jobs import restoring, transitions
from jobs.models import Job
from pool.models import UpstreamAccount
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO

pytestmark = pytest.mark.django_db


def parked(*credits_of_accounts: float | None, price: str = "20") -> Job:
    pool = factories.make_tracked_pool(*credits_of_accounts, window=100)
    job = factories.submit(factories.make_tenant(), factories.make_job_type(pool, price=price, settle=""))
    transitions.assign(pool.pk)
    job.refresh_from_db()
    assert job.unaffordable
    return job


def test_a_job_that_no_account_can_pay_for_says_what_it_wants_and_what_there_is(operator: Operator) -> None:
    job, other = parked(15, 2.5), factories.at("pending")
    why = "waits for upstream credits: it costs 20, the richest account has 15"
    assert why in operator.page(job)
    assert operator.listed(Job).count(why) == 1
    assert "waits for upstream credits: it" not in operator.page(other)
    only = operator.listed(Job, only="unaffordable")
    assert (str(job.pk) in only, str(other.pk) in only) == (True, False)


def test_a_job_in_a_closed_pool_says_until_when(operator: Operator) -> None:
    job = parked(15)
    restoring.restored(note="test")
    job.pool.refresh_from_db()
    why = f"its pool is closed since a restore, until {job.pool.quarantined_until:%Y-%m-%d %H:%M:%S} UTC"
    assert why in operator.page(job)
    assert operator.listed(Job).count(why) == 1


def test_a_page_tells_of_each_pool_by_itself(operator: Operator) -> None:
    parked(15)
    parked(5, price="6")
    page = operator.listed(Job)
    assert "it costs 20, the richest account has 15" in page
    assert "it costs 6, the richest account has 5" in page


def test_one_that_was_cancelled_waits_for_nothing(operator: Operator) -> None:
    job = parked(15)
    transitions.cancel(job.pk)
    assert "waits for upstream credits: it" not in operator.page(job)


def test_the_accounts_say_what_they_have_left(operator: Operator) -> None:
    pool = factories.make_tracked_pool(100, None, 7.5, name="video")
    factories.submit(factories.make_tenant(), factories.make_job_type(pool))
    transitions.assign(pool.pk)
    found = {row.name: row.credits_left for row in operator.found(UpstreamAccount, "video")}
    assert found == {"acct-001": 90 * MICRO, "acct-002": None, "acct-003": 7_500_000}
    shown = operator.listed(UpstreamAccount)
    assert "Credits left" in shown
    assert "90" in shown
    assert "7.5" in shown


def test_who_may_not_see_readings_sees_no_credits_of_accounts(onlooker: Callable[..., Operator]) -> None:
    factories.make_tracked_pool(77.5, name="video")
    looking = onlooker("view_upstreamaccount")
    assert "Credits left" not in looking.listed(UpstreamAccount)
    assert "77.5" not in looking.listed(UpstreamAccount)
    looking.may("view_upstreamaccount", "view_reading")
    assert "77.5" in looking.listed(UpstreamAccount)


@pytest.mark.usefixtures("within_one_day")
def test_the_budgets_of_all_tenants_say_what_is_used(operator: Operator) -> None:
    ledger.set_ceiling(None, 50 * MICRO)
    factories.at("completed", tenant=factories.make_tenant())
    factories.at("pending", tenant=factories.make_tenant())
    for page in (operator.listed(Ceiling), operator.page(Ceiling.objects.get())):
        assert "13" in page
        assert "charged and held in this month (UTC)" in page.replace("Charged", "charged")
