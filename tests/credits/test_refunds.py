"""What was charged may be given back, once, and never more than it was; limits, and the statement that shows it all."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import transaction

from credits import ledger
from credits.errors import (
    FloorInUse,
    InsufficientCredits,
    LedgerConflict,
    NothingCharged,
    NoWallet,
    RefundExceedsCharge,
)
from credits.ledger import Closing
from credits.models import Balance, Lot
from tests.credits.conftest import hold_one, lots, money

pytestmark = pytest.mark.django_db
Open = Callable[..., int]


def test_a_refund_is_a_new_lot_that_never_expires(open_tenant: Open) -> None:
    tenant = open_tenant(50)
    job = hold_one(tenant, 50)
    ledger.settle([Closing(job, 0, 40)])
    assert ledger.refund(job, 0, 25, "ticket 7") is True
    assert ledger.refund(job, 0, 25, "ticket 7") is False
    assert money(tenant) == (35, 0)
    lot = Lot.objects.get(source_key="refund:ticket 7")
    assert (lot.amount, lot.remaining, lot.category, lot.expires_at) == (25, 25, "paid", None)
    assert (lot.transfers.get().code, lot.transfers.get().reverses.code) == ("refund", "settle")  # type: ignore[union-attr]


def test_refunds_together_are_no_more_than_the_charge(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 30)
    ledger.settle([Closing(job, 0, 45)])
    assert ledger.refund(job, 0, 20, "a")
    with pytest.raises(RefundExceedsCharge), transaction.atomic():
        ledger.refund(job, 0, 11, "b")
    assert ledger.refund(job, 0, 10, "b")
    with pytest.raises(RefundExceedsCharge), transaction.atomic():
        ledger.refund(job, 0, 1, "c")
    assert money(tenant) == (100, 0)


def test_a_run_that_was_not_charged_has_nothing_to_refund(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    released, waiting, free = hold_one(tenant, 10), hold_one(tenant, 10), hold_one(tenant, 0)
    ledger.release([(released, 0)], "failed")
    ledger.settle([Closing(free, 0, 0)])
    for job, run in [(released, 0), (waiting, 0), (free, 0), (uuid4(), 0), (waiting, 1)]:
        with pytest.raises(NothingCharged), transaction.atomic():
            ledger.refund(job, run, 1, "x")
    assert money(tenant) == (100, 10)


def test_each_run_is_refunded_by_itself(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 10)
    ledger.release([(job, 0)], "failed")
    hold_one(tenant, 10, job, run=2)
    ledger.settle([Closing(job, 2, 10)])
    with pytest.raises(NothingCharged), transaction.atomic():
        ledger.refund(job, 0, 10, "r")
    assert ledger.refund(job, 2, 10, "r")


def test_the_key_of_a_refund_stands_for_its_content(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job, other = hold_one(tenant, 10), hold_one(tenant, 10)
    ledger.settle([Closing(job, 0, 10), Closing(other, 0, 10)])
    ledger.refund(job, 0, 5, "r")
    for job_id, amount in [(job, 4), (other, 5)]:
        with pytest.raises(LedgerConflict), transaction.atomic():
            ledger.refund(job_id, 0, amount, "r")
    # A grant and a refund with one name are two things.
    assert ledger.grant(tenant, 1, "r")
    assert money(tenant) == (86, 0)


def test_a_refund_pays_debt_first(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=100)
    job = hold_one(tenant, 60)
    ledger.settle([Closing(job, 0, 60)])
    ledger.refund(job, 0, 20, "r")
    assert (money(tenant), lots(tenant)) == ((-40, 0), [])


def test_a_lowered_limit_stops_new_holds_and_nothing_else(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=100)
    job = hold_one(tenant, 60)
    ledger.set_credit_limit(tenant, 10)
    assert ledger.balances(tenant).available == -50
    with pytest.raises(InsufficientCredits), transaction.atomic():
        hold_one(tenant, 1)
    ledger.settle([Closing(job, 0, 60)])
    assert money(tenant) == (-60, 0)


def test_a_limit_beyond_the_floor_is_refused_as_too_little_credit(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=10)
    ledger.set_credit_limit(tenant, 50)
    with pytest.raises(InsufficientCredits) as refusal, transaction.atomic():
        hold_one(tenant, 11)
    assert refusal.value.available == 10
    ledger.set_floor(tenant, -50)
    hold_one(tenant, 50)
    assert Balance.objects.get(account__owner_id=tenant).hard_floor == -50


def test_a_floor_above_what_is_used_on_credit_is_refused(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=100)
    job = hold_one(tenant, 30)
    ledger.settle([Closing(hold_one(tenant, 20), 0, 20)])
    # 100 free credits, which may go: the hold still stands on credit. The grant pays the 20 that were used.
    ledger.grant(tenant, 120, "invoice")
    assert money(tenant) == (100, 30)
    with pytest.raises(FloorInUse), transaction.atomic():
        ledger.set_floor(tenant, -29)
    ledger.set_floor(tenant, -30)
    ledger.settle([Closing(job, 0, 30)])
    ledger.set_floor(tenant, 0)
    with pytest.raises(ValueError, match="an amount is"):
        ledger.set_floor(tenant, 1)
    with pytest.raises(NoWallet), transaction.atomic():
        ledger.set_floor(404, 0)


def test_the_statement_shows_each_entry_and_what_was_left(open_tenant: Open) -> None:
    tenant, other = open_tenant(100), open_tenant(70)
    job = hold_one(tenant, 30)
    ledger.settle([Closing(hold_one(other, 5), 0, 5)])
    ledger.settle([Closing(job, 0, 12)])
    ledger.refund(job, 0, 2, "r")
    entries = ledger.statement(tenant)
    assert [(entry.code, entry.amount, entry.posted, entry.job_id, entry.run) for entry in entries] == [
        ("refund", 2, 90, job, 0),
        ("settle", -12, 88, job, 0),
        ("grant_paid", 100, 100, None, None),
    ]
    assert [entry.category for entry in entries] == ["paid", None, "paid"]
    pages = [ledger.statement(tenant, limit=1)]
    while pages[-1]:
        pages.append(ledger.statement(tenant, before_id=pages[-1][-1].id, limit=1))
    assert [entry for page in pages for entry in page] == entries
    assert ledger.statement(404) == []
    with pytest.raises(ValueError, match="a page has"):
        ledger.statement(tenant, limit=0)
