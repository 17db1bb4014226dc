"""What each verb of the ledger does to a wallet, and that doing it twice does nothing."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from credits import ledger
from credits.errors import InsufficientCredits, LedgerConflict, NoWallet
from credits.ledger import Closed, Closing, HoldRequest, WalletBalance
from credits.models import Account, Hold, Transfer
from tests.credits.conftest import hold_one, money

pytestmark = pytest.mark.django_db
Open = Callable[..., int]


def entries() -> list[tuple[str, str, str, int]]:
    rows = Transfer.objects.order_by("id").values_list("code", "debit__kind", "credit__kind", "amount")
    return [(str(code), str(debit), str(credit), int(amount)) for code, debit, credit, amount in rows]


def test_a_wallet_is_opened_once_and_keeps_its_limit() -> None:
    account_id = ledger.open_wallet(7, credit_limit=50)
    assert ledger.open_wallet(7, credit_limit=9) == account_id
    assert ledger.balances(7) == WalletBalance(posted=0, held=0, available=50, credit_limit=50)
    assert Account.objects.filter(owner_id=7).count() == 2  # wallet and receivable


def test_a_tenant_without_a_wallet_is_named() -> None:
    with pytest.raises(NoWallet, match="tenant 404"):
        ledger.balances(404)
    with pytest.raises(NoWallet), transaction.atomic():
        ledger.grant(404, 5, "gift")
    with pytest.raises(NoWallet), transaction.atomic():
        hold_one(404, 0)
    ledger.lock_wallets([404])
    assert not Transfer.objects.exists()


def test_a_grant_is_booked_once_per_source(open_tenant: Open) -> None:
    tenant = open_tenant()
    assert ledger.grant(tenant, 100, "invoice-1") is True
    assert ledger.grant(tenant, 100, "invoice-1") is False
    assert ledger.grant(tenant, 30, "spring", code="grant_promo") is True
    assert money(tenant) == (130, 0)
    assert entries() == [("grant_paid", "issuer", "wallet", 100), ("grant_promo", "issuer", "wallet", 30)]


def test_a_grant_with_the_same_source_and_other_content_is_a_conflict(open_tenant: Open) -> None:
    tenant, other = open_tenant(), open_tenant()
    ledger.grant(tenant, 100, "invoice-1")
    for tenant_id, amount, code in [
        (tenant, 99, "grant_paid"),
        (tenant, 100, "grant_promo"),
        (other, 100, "grant_paid"),
    ]:
        with pytest.raises(LedgerConflict), transaction.atomic():
            ledger.grant(tenant_id, amount, "invoice-1", code)
    assert (money(tenant), money(other)) == ((100, 0), (0, 0))


def test_a_hold_sets_credits_aside(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    assert ledger.balances(tenant) == WalletBalance(posted=100, held=60, available=40, credit_limit=0)
    hold = Hold.objects.get(job_id=job)
    assert (hold.status, hold.amount, hold.run, hold.attempt) == ("open", 60, 0, 0)
    assert (hold.review_at - hold.created_at).total_seconds() == 3600


def test_a_hold_beyond_the_credit_line_is_refused_whole(open_tenant: Open) -> None:
    tenant = open_tenant(100, credit_limit=20)
    hold_one(tenant, 90)
    with pytest.raises(InsufficientCredits) as refusal, transaction.atomic():
        ledger.hold(tenant, [HoldRequest(uuid4(), 0, 10), HoldRequest(uuid4(), 0, 21)], 60)
    assert (refusal.value.required, refusal.value.available, refusal.value.held) == (31, 30, 90)
    assert money(tenant) == (100, 90)
    assert Hold.objects.count() == 1
    hold_one(tenant, 30)
    assert ledger.balances(tenant).available == 0


def test_a_refused_hold_takes_its_own_transaction_down_only(open_tenant: Open) -> None:
    tenant = open_tenant(10)
    kept = hold_one(tenant, 5)
    with pytest.raises(InsufficientCredits), transaction.atomic():
        hold_one(tenant, 6)
    assert list(Hold.objects.values_list("job_id", flat=True)) == [kept]


def test_a_free_job_is_held_even_with_nothing_in_the_wallet(open_tenant: Open) -> None:
    tenant = open_tenant()
    job = hold_one(tenant, 0)
    assert ledger.settle([Closing(job, 0, 0)]) == [Closed(job, 0, captured=0, overrun=0)]
    assert money(tenant) == (0, 0)
    assert entries() == []


def test_holding_the_same_run_again_changes_nothing(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    hold_one(tenant, 60, job)
    assert money(tenant) == (100, 60)
    with pytest.raises(LedgerConflict), transaction.atomic():
        hold_one(tenant, 30, job)
    with pytest.raises(LedgerConflict), transaction.atomic():
        ledger.hold(tenant, [HoldRequest(uuid4(), 0, 1), HoldRequest(job, 0, 2)], 60)
    assert money(tenant) == (100, 60)


def test_a_replayed_job_gets_a_hold_of_its_own(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    ledger.release([(job, 0)], "failed")
    hold_one(tenant, 60, job, run=1)
    assert money(tenant) == (100, 60)
    assert ledger.settle([Closing(job, 0, 60)]) == []
    assert ledger.settle([Closing(job, 1, 60)]) == [Closed(job, 1, captured=60, overrun=0)]
    assert money(tenant) == (40, 0)


def test_settling_charges_the_actual_amount_and_gives_back_the_rest(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job, waiting = hold_one(tenant, 60), hold_one(tenant, 10)
    assert ledger.settle([Closing(job, 0, 45)]) == [Closed(job, 0, captured=45, overrun=0)]
    assert money(tenant) == (55, 10)
    assert entries()[1:] == [("settle", "wallet", "revenue", 45)]
    assert Hold.objects.get(job_id=waiting).status == "open"


@pytest.mark.parametrize(("policy", "payer"), [("absorb", "loss"), ("debt", "receivable")])
def test_usage_above_the_hold_is_paid_by_loss_or_receivable(open_tenant: Open, policy: Any, payer: str) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    assert ledger.settle([Closing(job, 0, 75, policy)]) == [Closed(job, 0, captured=60, overrun=15)]
    assert money(tenant) == (40, 0)
    assert entries()[1:] == [("settle", "wallet", "revenue", 60), (f"overrun_{policy}", payer, "revenue", 15)]
    assert Transfer.objects.get(code=f"overrun_{policy}").debit.owner_id == (tenant if policy == "debt" else None)


def test_a_release_gives_everything_back(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    assert ledger.release([(job, 0)], "cancelled") == [(job, 0)]
    assert money(tenant) == (100, 0)
    hold = Hold.objects.get(job_id=job)
    assert (hold.status, hold.reason, hold.captured) == ("released", "cancelled", None)
    assert entries()[1:] == []


def test_a_closed_hold_is_closed_for_good(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    settled, released = hold_one(tenant, 30), hold_one(tenant, 30)
    ledger.settle([Closing(settled, 0, 30)])
    ledger.release([(released, 0)], "failed")
    before = entries()
    assert ledger.settle([Closing(settled, 0, 10), Closing(released, 0, 10)]) == []
    assert ledger.release([(settled, 0), (released, 0), (released, 0)], "again") == []
    assert money(tenant) == (70, 0)
    assert entries() == before


def test_a_job_without_a_hold_is_not_in_the_answer(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 10)
    assert ledger.settle([Closing(uuid4(), 0, 5), Closing(job, 0, 10), Closing(job, 1, 10)]) == [Closed(job, 0, 10, 0)]
    assert ledger.release([(uuid4(), 0)], "failed") == []
    assert (ledger.settle([]), ledger.release([], "none")) == ([], [])


def test_one_run_closed_twice_in_a_set_must_say_the_same(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 10)
    with pytest.raises(LedgerConflict):
        ledger.settle([Closing(job, 0, 5), Closing(job, 0, 6)])
    assert ledger.settle([Closing(job, 0, 5), Closing(job, 0, 5)]) == [Closed(job, 0, 5, 0)]
    assert money(tenant) == (95, 0)


def test_a_set_costs_as_many_statements_as_one_row(open_tenant: Open, django_assert_num_queries: Any) -> None:
    tenants = [open_tenant(10_000) for _ in range(3)]
    requests = {tenant: [HoldRequest(uuid4(), 0, 10) for _ in range(60)] for tenant in tenants}
    with django_assert_num_queries(3):
        for tenant, holds in requests.items():
            ledger.hold(tenant, holds, 60)
    jobs = [request.job_id for holds in requests.values() for request in holds]
    with django_assert_num_queries(1):
        assert len(ledger.settle([Closing(job, 0, 7) for job in jobs[:80]])) == 80
    with django_assert_num_queries(1):
        assert len(ledger.settle([Closing(job, 0, 12) for job in jobs[80:160]])) == 80
    with django_assert_num_queries(1):
        assert len(ledger.release([(job, 0) for job in jobs[160:]], "cancelled")) == 20
    assert [money(tenant) for tenant in tenants] == [
        (10_000 - 60 * 7, 0),
        (10_000 - 20 * 7 - 40 * 10, 0),
        (10_000 - 40 * 10, 0),
    ]


@pytest.mark.parametrize("amount", [-1, 1.5, True, Decimal(3), "3", 10**15 + 1])
def test_an_amount_is_a_whole_number_of_micro_credits(open_tenant: Open, amount: Any) -> None:
    tenant = open_tenant(100)
    with pytest.raises(ValueError, match="an amount is"):
        ledger.hold(tenant, [HoldRequest(uuid4(), 0, amount)], 60)
    with pytest.raises(ValueError, match="an amount is"):
        ledger.settle([Closing(uuid4(), 0, amount)])
    with pytest.raises(ValueError, match="an amount is"):
        ledger.grant(tenant, amount, "gift")


def test_a_set_has_a_limit() -> None:
    with pytest.raises(ValueError, match="1001 rows"):
        ledger.release([(uuid4(), 0)] * 1001, "too many")
