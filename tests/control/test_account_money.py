"""Credits of upstream accounts in an operator's hands: readings, top-ups, debts paid; and where all of it is told."""

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from broker_project.control.money_stories import places_of_entry
from credits import ledger, upstream_accounts
from credits.models import Balance, Hold, Reading, Transfer
from jobs import transitions
from jobs.queries.balances import standing
from pool.models import UpstreamAccount
from tenants.models import Tenant
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
TRUE = {"book": "on", "reason": "their support says so"}


@pytest.fixture
def account() -> UpstreamAccount:
    return factories.make_tracked_pool(100, name="video").accounts.get()


def left(account: UpstreamAccount) -> float:
    return upstream_accounts.available(account.pool_id, [account.pk])[account.pk] / MICRO


def debtor(units: float = 15) -> Tenant:
    """A tenant that owes what it used above the 10 that were held."""
    job = factories.at("assigned", factories.make_job_type(overrun="debt"))
    factories.end(job, Outcome(over=True, verdict="succeeded", units=units))
    return job.tenant


def test_a_reading_is_taken_once_with_its_reason(operator: Operator, account: UpstreamAccount) -> None:
    said = {"amount": "95.5", "reason": "their page"}
    shown = operator.effect("reading", account, **said)
    assert "100 posted, 0 held, 100 available" in shown
    assert "-4.5 off: 95.5 available" in shown
    page = operator.hidden("reading", account)
    assert "-4.5 booked as drift, 95.5 are available" in operator.do("reading", account, hidden=page, **said)
    assert "it has moved on since" in operator.do("reading", account, hidden=page, **said)
    assert (left(account), Reading.objects.count()) == (95.5, 1)
    entry = Transfer.objects.get(code="drift")
    for place in (account, entry):
        assert operator.page(place).count("their page") == 1, place
    assert "95.5 posted, 0 held, 95.5 available; 0 spent, -4.5 drift" in operator.page(account)


def test_a_reading_that_is_far_off_is_not_booked_unless_it_is_known_to_be_true(
    operator: Operator, account: UpstreamAccount
) -> None:
    said = {"amount": "0", "reason": "their page"}
    assert "-100 off, more than 20: kept, not booked" in operator.effect("reading", account, **said)
    assert "too far to be believed, kept and not booked" in operator.do("reading", account, **said)
    assert left(account) == 100
    assert "NO: too far off" in operator.page(account)
    assert "-100 off: 0 available" in operator.effect("reading", account, **{**said, **TRUE})
    operator.do("reading", account, **{**said, **TRUE})
    assert left(account) == 0


def test_the_effect_counts_what_attempts_in_flight_may_have_taken(operator: Operator, account: UpstreamAccount) -> None:
    factories.submit(factories.make_tenant(), factories.make_job_type(account.pool))
    transitions.assign(account.pool_id)
    assert "0 off: 90 available" in operator.effect("reading", account, amount="92", reason="r")
    done = operator.do("reading", account, amount="-1", book="on", reason="r")
    assert "-91 booked as drift, -1 are available" in done
    assert "90 to 100" in operator.page(account)


def test_a_top_up_is_booked_once(operator: Operator, account: UpstreamAccount) -> None:
    assert "125 available" in operator.effect("top-up", account, amount="25", reason="invoice 3")
    page = operator.hidden("top-up", account)
    assert "25 credits booked, 125 are available" in operator.do(
        "top-up", account, hidden=page, amount="25", reason="i3"
    )
    assert "booked already" in operator.do("top-up", account, hidden=page, amount="25", reason="i3")
    assert left(account) == 125
    entry = Transfer.objects.latest("id")
    assert (entry.code, entry.op_key) == ("topup", f"topup:admin:{page['token']}:{account.pk}")
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("operation", ["reading", "top-up"])
def test_an_account_that_is_not_tracked_offers_none(operator: Operator, operation: str) -> None:
    account = factories.make_pool().accounts.get()
    page = operator.page(account)
    assert "Not tracked" in page
    assert "Take a reading" not in page
    assert "its credits are not tracked" in operator.effect(operation, account, amount="1", reason="r")
    assert "its credits are not tracked" in operator.do(operation, account, amount="1", reason="r")


def test_a_debt_is_paid_in_parts_and_then_offered_no_more(operator: Operator) -> None:
    tenant = debtor()
    assert "5 owed" in operator.page(tenant)
    shown = operator.effect("payment", tenant, amount="2", reason="bank 1")
    assert "owes 5, 985 available" in shown
    assert "owes 3, 987 available" in shown
    page = operator.hidden("payment", tenant)
    assert "a payment of 2 booked, 3 are still owed" in operator.do(
        "payment", tenant, hidden=page, amount="2", reason="bank 1"
    )
    assert "it has moved on since" in operator.do("payment", tenant, hidden=page, amount="2", reason="bank 1")
    assert "only 3 are owed" in operator.effect("payment", tenant, amount="4", reason="bank 2")
    assert "less than" in operator.do("payment", tenant, amount="4", reason="bank 2")
    assert "a payment of 3 booked, 0 are still owed" in operator.do("payment", tenant, amount="", reason="bank 3")
    assert ledger.balances(tenant.pk).owed == 0
    last = operator.page(tenant)
    assert "payments Book a payment" not in last, "the button, with its icon"
    assert last.count("bank 3") == 1


def test_who_owes_nothing_is_offered_no_payment(operator: Operator) -> None:
    tenant = factories.make_tenant()
    assert "Book a payment" not in operator.page(tenant)
    assert "it owes nothing" in operator.effect("payment", tenant, amount="", reason="r")
    assert "it owes nothing" in operator.do("payment", tenant, amount="", reason="r")


@pytest.mark.parametrize(
    ("operation", "needed"), [("reading", "add_reading"), ("top-up", "add_transfer"), ("payment", "add_transfer")]
)
def test_each_needs_its_permission(operator: Operator, account: UpstreamAccount, operation: str, needed: str) -> None:
    row = debtor() if operation == "payment" else account
    seen = f"view_{row._meta.model_name}"
    operator.user.is_superuser = False
    operator.user.is_staff = True
    operator.user.save()
    operator.may(seen)
    assert operator.open(operation, row).status_code == 403
    operator.may(needed)
    assert operator.open(operation, row).status_code == 403
    operator.may(seen, needed)
    assert operator.open(operation, row).status_code == 200


def test_what_attempts_took_stands_at_the_job_apart_from_the_tenants_money(
    operator: Operator, account: UpstreamAccount
) -> None:
    job = factories.submit(factories.make_tenant(), factories.make_job_type(account.pool, cost="7"))
    transitions.assign(account.pool_id)
    factories.end(job, Outcome(over=True, verdict="succeeded", units=3, cost=8.5))
    page = operator.page(job)
    assert "Credits of upstream accounts" in page
    assert "1 (run 1) video/acct-001 captured 7 8.5" in page
    other = factories.at("completed")
    assert "Nothing was held of any." in operator.page(other)


@pytest.mark.usefixtures("within_one_day")
def test_the_budgets_and_what_is_used_of_them_stand_at_the_tenant(operator: Operator) -> None:
    tenant = factories.make_tenant(day_budget=50 * MICRO)
    factories.submit(tenant, factories.make_job_type())
    page = operator.page(tenant)
    assert "day 10 50 40" in page
    assert "month 10 none –" in page


def test_balances_and_readings_say_whose_they_are(operator: Operator, account: UpstreamAccount) -> None:
    tenant = factories.make_tenant(name="acme")
    Tenant.objects.exclude(pk=tenant.pk).delete()
    upstream_accounts.read(account.pool_id, account.pk, 99 * MICRO, "r1")
    factories.submit(tenant, factories.make_job_type(account.pool))
    transitions.assign(account.pool_id)
    for model in (Balance, Reading):
        for words in ("video", "acct-001", "video acct-001"):
            found = operator.found(model, words)
            assert found, (model, words)
            assert {row.account.kind for row in found} == {"upstream"}
    assert {row.account.kind for row in operator.found(Balance, "acme")} == {"wallet"}
    assert operator.found(Reading, "acme") == []
    for model in (Balance, Hold):
        page = operator.client.get(reverse(f"admin:credits_{model._meta.model_name}_changelist")).content.decode()
        assert "video/acct-001" in page
        assert "acme" in page


def test_the_standing_of_many_is_one_question(account: UpstreamAccount, django_assert_num_queries: object) -> None:
    factories.make_tracked_pool(1, 2, 3)
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert len(standing()) == 4


def test_an_entry_of_an_upstream_account_is_not_a_tenants_with_the_same_number() -> None:
    pool = factories.make_tracked_pool(5)
    account = pool.accounts.get()
    Tenant.objects.create(pk=account.pk, name="somebody else")
    entry = Transfer.objects.get(code="topup")
    assert not any("somebody else" in str(cell) for row in places_of_entry(entry).cells for cell in row)
