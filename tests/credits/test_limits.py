"""Budgets, pace and debts: what a tenant, or all together, may use beyond having the credits for it."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models import F

from credits import ledger, limits, upstream_accounts
from credits.errors import BudgetExceeded, InsufficientCredits, LedgerConflict, NotOwed, Paced
from credits.ledger import Closing, HoldRequest
from credits.models import Balance, Transfer
from tenants.models import Tenant
from tests.credits.conftest import hold_one, money
from tests.db import in_another_connection, rows, wait_until_blocked_by_us

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_one_day")]
Open = Callable[..., int]


def tenant_with(granted: int = 1000, **terms: int) -> int:
    tenant = Tenant.objects.create(name=str(uuid4()), **terms)
    ledger.open_wallet(tenant.pk)
    ledger.grant(tenant.pk, granted, f"opening:{tenant.pk}")
    return tenant.pk


def settle_one(tenant: int, amount: int, actual: int | None = None, overrun: str = "absorb") -> None:
    job = hold_one(tenant, amount)
    ledger.settle([Closing(job, 0, amount if actual is None else actual, "debt" if overrun == "debt" else "absorb")])


def as_if_charged_days_ago(days: int) -> None:
    Balance.objects.filter(charged_on__isnull=False).update(charged_on=F("charged_on") - timedelta(days=days))


@pytest.mark.parametrize("period", ["day", "month"])
def test_a_budget_counts_what_was_charged_and_what_is_held(period: str) -> None:
    tenant = tenant_with(**{f"{period}_budget": 100})
    settle_one(tenant, 60, 50)
    hold_one(tenant, 30)
    with pytest.raises(BudgetExceeded) as refusal:
        hold_one(tenant, 21)
    error = refusal.value
    assert (error.whose, error.period, error.budget, error.used, error.required) == ("tenant", period, 100, 80, 21)
    assert money(tenant) == (950, 30)
    hold_one(tenant, 20)


def test_a_refund_gives_no_budget_back() -> None:
    tenant = tenant_with(day_budget=100)
    job = hold_one(tenant, 100)
    ledger.settle([Closing(job, 0, 100)])
    ledger.refund(job, 0, 100, "sorry")
    with pytest.raises(BudgetExceeded):
        hold_one(tenant, 1)


@pytest.mark.tampers
def test_a_budget_begins_anew_with_its_period() -> None:
    tenant = tenant_with(day_budget=100, month_budget=10_000)
    settle_one(tenant, 100)
    as_if_charged_days_ago(1)
    settle_one(tenant, 100)
    balance = Balance.objects.get(account__owner_id=tenant)
    assert balance.day_charged == 100
    as_if_charged_days_ago(32)
    settle_one(tenant, 70)
    balance.refresh_from_db()
    assert (balance.day_charged, balance.month_charged) == (70, 70)


@pytest.mark.tampers
def test_the_budget_of_a_month_counts_more_than_the_last_day() -> None:
    tenant = tenant_with(month_budget=150)
    settle_one(tenant, 100)
    Balance.objects.filter(charged_on__isnull=False).update(day_charged=10)  # as if most of it was on other days
    with pytest.raises(BudgetExceeded) as refusal:
        hold_one(tenant, 60)
    assert refusal.value.used == 100


def test_the_budget_of_all_tenants_counts_no_upstream_account() -> None:
    ledger.set_ceiling(100, 100)
    upstream_accounts.track(1, 1)
    upstream_accounts.top_up(1, 1, 1000, "opening")
    attempt = upstream_accounts.AttemptHold(1, uuid4(), 1, 1, 500)
    assert upstream_accounts.hold(1, [attempt], 60)
    hold_one(tenant_with(), 100)
    upstream_accounts.close([upstream_accounts.AttemptEnd(attempt.job_id, 1, 1, None)])


def test_a_budget_of_nothing_refuses_all_but_what_is_free() -> None:
    tenant = tenant_with(day_budget=0)
    hold_one(tenant, 0)
    with pytest.raises(BudgetExceeded):
        hold_one(tenant, 1)


def test_the_second_hold_is_checked_against_the_budget_that_the_first_left() -> None:
    tenant = tenant_with(day_budget=100)
    with transaction.atomic():
        hold_one(tenant, 60)
        second = in_another_connection(lambda: hold_one(tenant, 60))
        wait_until_blocked_by_us()
    with pytest.raises(BudgetExceeded) as refusal:
        second.result(20)
    assert refusal.value.used == 60


@pytest.mark.parametrize("period", ["day", "month"])
def test_all_tenants_together_have_a_budget(period: str) -> None:
    ledger.set_ceiling(100, None) if period == "day" else ledger.set_ceiling(None, 100)
    first, second = tenant_with(), tenant_with()
    settle_one(first, 50)
    hold_one(second, 40)
    with pytest.raises(BudgetExceeded) as refusal:
        hold_one(second, 11)
    error = refusal.value
    assert (error.whose, error.period, error.budget, error.used, error.required) == ("all", period, 100, 90, 11)
    assert money(second) == (1000, 40)
    hold_one(first, 10)
    assert ledger.budgets(None).used_in_month == 100


def test_holds_of_two_tenants_at_once_are_counted_together() -> None:
    ledger.set_ceiling(100, None)
    first, second = tenant_with(), tenant_with()
    with transaction.atomic():
        hold_one(first, 60)
        other = in_another_connection(lambda: hold_one(second, 60))
        wait_until_blocked_by_us()
    with pytest.raises(BudgetExceeded):
        other.result(20)
    assert money(second) == (1000, 0)


def test_the_tenant_is_told_once_that_little_is_left() -> None:
    tenant = tenant_with(100, low_below=50)
    jobs = [uuid4() for _ in range(5)]

    def hold(job: int, amount: int) -> bool:
        return ledger.hold(tenant, [HoldRequest(jobs[job], 0, amount)], 60)

    assert not hold(0, 50)
    assert hold(1, 1)
    assert not hold(1, 1), "the same again"
    assert not hold(2, 10)
    ledger.grant(tenant, 100, "top-up")
    assert not hold(3, 10)
    assert hold(4, 100)


@pytest.mark.parametrize(("mark", "told"), [(50, [True, True, True]), (80, [True, False, False])])
def test_only_after_twice_the_mark_is_the_tenant_told_again(mark: int, told: list[bool]) -> None:
    tenant = tenant_with(100, low_below=mark)
    found = []
    for _ in told:
        job = uuid4()
        found.append(ledger.hold(tenant, [HoldRequest(job, 0, 60)], 60))
        ledger.release([(job, 0)], "cancelled")
    assert found == told


def test_a_slow_descent_after_twice_the_mark_is_told_of_too() -> None:
    tenant = tenant_with(100, low_below=10)
    first = uuid4()
    told = [ledger.hold(tenant, [HoldRequest(first, 0, 95)], 60)]
    ledger.release([(first, 0)], "cancelled")
    told += [ledger.hold(tenant, [HoldRequest(uuid4(), 0, 30)], 60) for _ in range(3)]
    told += [ledger.hold(tenant, [HoldRequest(uuid4(), 0, 5)], 60)]
    assert told == [True, False, False, False, True]


def test_a_process_of_the_version_before_holds_as_it_did() -> None:
    tenant = tenant_with(100, day_budget=60)
    ask = "SELECT credits_place_holds(%s, ARRAY[%s::uuid], ARRAY[1], ARRAY[%s::bigint], 60::float8)"
    assert rows(ask, [tenant, str(uuid4()), 50]) == [(1,)]
    with transaction.atomic():
        assert rows(ask, [tenant, str(uuid4()), 50]) == [(None,)]
        transaction.set_rollback(True)
    assert money(tenant) == (100, 50)


def test_sums_are_as_large_as_money_may_be() -> None:
    most = 10**15
    tenant = tenant_with(most)
    assert limits.why_not(tenant, most) is None
    hold_one(tenant, 1)
    assert isinstance(limits.why_not(tenant, most), InsufficientCredits)
    settle_one(tenant, 3 * 10**9, 20 * 10**9, "debt")
    assert ledger.pay_debt(tenant, 17 * 10**9, "invoice")
    ledger.set_credit_limit(tenant, most)
    ledger.set_floor(tenant, -most)
    ledger.set_ceiling(most, most)
    assert ledger.budgets(tenant).used_in_day == 20 * 10**9 + 1


def test_submits_are_paced_while_little_is_left() -> None:
    tenant = tenant_with(100, low_below=50, low_pause_ms=60_000)

    def submit(amount: int) -> None:
        ledger.hold(tenant, [HoldRequest(uuid4(), 0, amount)], 60, paced=True)

    submit(30)
    submit(30)  # leaves little
    with pytest.raises(Paced) as refusal:
        submit(1)
    assert 50 < refusal.value.seconds <= 60
    hold_one(tenant, 1)  # not a submit
    with connection.cursor() as cursor:
        cursor.execute("UPDATE credits_balance SET paced_until = clock_timestamp()")
    submit(1)
    with pytest.raises(Paced):
        submit(1)
    ledger.grant(tenant, 1, "top-up")
    submit(1)
    with pytest.raises(InsufficientCredits):
        submit(1000)


def test_what_is_owed_counts_against_what_may_be_held_and_can_be_paid() -> None:
    tenant = tenant_with(100)
    settle_one(tenant, 40, 70, "debt")
    balance = ledger.balances(tenant)
    assert (balance.posted, balance.owed, balance.available) == (60, 30, 30)
    with pytest.raises(InsufficientCredits) as refusal:
        hold_one(tenant, 31)
    assert refusal.value.available == 30
    with pytest.raises(NotOwed):
        ledger.pay_debt(tenant, 31, "invoice-1")
    assert ledger.pay_debt(tenant, 20, "invoice-1")
    assert not ledger.pay_debt(tenant, 20, "invoice-1")
    with pytest.raises(LedgerConflict):
        ledger.pay_debt(tenant, 10, "invoice-1")
    assert ledger.balances(tenant).available == 50
    assert Transfer.objects.filter(code="repay").count() == 1
    hold_one(tenant, 50)


def test_debt_is_charged_to_the_budgets_too() -> None:
    tenant = tenant_with(day_budget=100)
    settle_one(tenant, 40, 70, "debt")
    assert ledger.budgets(tenant).used_in_day == 70


def test_a_loss_of_ours_is_not_charged_to_the_budgets() -> None:
    tenant = tenant_with(day_budget=100)
    settle_one(tenant, 40, 70)
    assert ledger.budgets(tenant).used_in_day == 40
