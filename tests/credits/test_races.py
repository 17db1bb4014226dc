"""Two connections at one wallet: whoever is second sees what the first left."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import transaction

from credits import ledger
from credits.errors import FloorInUse, InsufficientCredits, LedgerConflict, RefundExceedsCharge
from credits.ledger import Closed, Closing
from credits.models import Hold, Transfer
from tests.credits.conftest import hold_one, let_expire, lots, money
from tests.db import in_another_connection, wait_until_blocked_by_us

pytestmark = pytest.mark.django_db(transaction=True)
Open = Callable[..., int]
SECONDS = 20
SOON = datetime.now(UTC) + timedelta(days=1)  # after all tests, however long they take


def test_the_second_hold_is_checked_against_what_the_first_left(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    with transaction.atomic():
        hold_one(tenant, 60)
        second = in_another_connection(lambda: hold_one(tenant, 60))
        wait_until_blocked_by_us()
    with pytest.raises(InsufficientCredits) as refusal:
        second.result(SECONDS)
    assert (refusal.value.required, refusal.value.available, refusal.value.held) == (60, 40, 60)
    assert money(tenant) == (100, 60)
    assert Hold.objects.count() == 1


def test_the_second_hold_passes_when_the_first_is_rolled_back(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    with transaction.atomic():
        hold_one(tenant, 60)
        second = in_another_connection(lambda: hold_one(tenant, 60))
        wait_until_blocked_by_us()
        transaction.set_rollback(True)
    assert second.result(SECONDS) == Hold.objects.get().job_id
    assert money(tenant) == (100, 60)


def test_one_run_held_twice_at_once_is_held_once(open_tenant: Open) -> None:
    tenant, job = open_tenant(100), uuid4()
    with transaction.atomic():
        hold_one(tenant, 60, job)
        same = in_another_connection(lambda: hold_one(tenant, 60, job))
        other = in_another_connection(lambda: hold_one(tenant, 50, job))
        wait_until_blocked_by_us(2)
    assert same.result(SECONDS) == job
    with pytest.raises(LedgerConflict):
        other.result(SECONDS)
    assert money(tenant) == (100, 60)


def test_of_two_settlements_one_charges(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    with transaction.atomic():
        assert ledger.settle([Closing(job, 0, 50)]) == [Closed(job, 0, 50, 0)]
        second = in_another_connection(lambda: ledger.settle([Closing(job, 0, 60)]))
        wait_until_blocked_by_us()
    assert second.result(SECONDS) == []
    assert money(tenant) == (50, 0)
    assert Transfer.objects.filter(code="settle").count() == 1


def test_a_release_that_comes_second_finds_the_hold_charged(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job, other = hold_one(tenant, 60), hold_one(tenant, 10)
    with transaction.atomic():
        ledger.settle([Closing(job, 0, 60)])
        second = in_another_connection(lambda: ledger.release([(job, 0), (other, 0)], "cancelled"))
        wait_until_blocked_by_us()
    assert second.result(SECONDS) == [(other, 0)]
    assert money(tenant) == (40, 0)


def test_a_settlement_adds_to_the_balance_it_waited_for(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 60)
    with transaction.atomic():
        ledger.grant(tenant, 1000, "invoice-1")
        hold_one(tenant, 500)
        second = in_another_connection(lambda: ledger.settle([Closing(job, 0, 30)]))
        wait_until_blocked_by_us()
    assert second.result(SECONDS) == [Closed(job, 0, 30, 0)]
    assert money(tenant) == (1070, 500)


def test_a_grant_sent_twice_at_once_is_booked_once(open_tenant: Open) -> None:
    tenant = open_tenant()
    with transaction.atomic():
        assert ledger.grant(tenant, 100, "invoice-1") is True
        same = in_another_connection(lambda: ledger.grant(tenant, 100, "invoice-1"))
        other = in_another_connection(lambda: ledger.grant(tenant, 90, "invoice-1"))
        wait_until_blocked_by_us()  # the second queues behind the first
    assert same.result(SECONDS) is False
    with pytest.raises(LedgerConflict):
        other.result(SECONDS)
    assert money(tenant) == (100, 0)


def test_a_wallet_opened_twice_at_once_is_one(open_tenant: Open) -> None:
    open_tenant()
    with transaction.atomic():
        account_id = ledger.open_wallet(10**9, credit_limit=5)
        second = in_another_connection(lambda: ledger.open_wallet(10**9, credit_limit=7))
        wait_until_blocked_by_us()
    assert second.result(SECONDS) == account_id
    assert ledger.balances(10**9).credit_limit == 5


def test_locked_wallets_make_every_verb_wait(open_tenant: Open) -> None:
    tenant, free = open_tenant(100), open_tenant(100)
    job = hold_one(tenant, 10)
    with transaction.atomic():
        ledger.lock_wallets([free, tenant, tenant])
        waiting: list[Future[object]] = [
            in_another_connection(lambda: hold_one(tenant, 20)),
            in_another_connection(lambda: ledger.settle([Closing(job, 0, 10)])),
            in_another_connection(lambda: ledger.grant(free, 5, "gift")),
        ]
        wait_until_blocked_by_us(2)  # the third may queue behind the first of them
        assert money(tenant) == (100, 10)
    for future in waiting:
        future.result(SECONDS)
    assert (money(tenant), money(free)) == ((90, 20), (105, 0))


def test_sets_over_the_same_wallets_do_not_deadlock(open_tenant: Open) -> None:
    tenants = [open_tenant(1000) for _ in range(4)]
    rounds = [[hold_one(tenant, 10) for tenant in tenants] for _ in range(12)]
    closing = [
        in_another_connection(partial(ledger.settle, [Closing(job, 0, 10) for job in jobs[:: 1 if i % 2 else -1]]))
        for i, jobs in enumerate(rounds)
    ]
    assert [len(future.result(SECONDS)) for future in closing] == [4] * 12
    assert [money(tenant) for tenant in tenants] == [(880, 0)] * 4


def test_a_set_that_waits_for_a_wallet_holds_nothing_of_the_later_ones(open_tenant: Open) -> None:
    first, later = open_tenant(100), open_tenant(100)
    jobs = [hold_one(later, 10), hold_one(first, 10)]
    with transaction.atomic():
        ledger.lock_wallets([first])
        second = in_another_connection(lambda: ledger.settle([Closing(job, 0, 10) for job in jobs]))
        wait_until_blocked_by_us()
        assert ledger.settle([Closing(jobs[0], 0, 7)]) == [Closed(jobs[0], 0, 7, 0)]
    assert second.result(SECONDS) == [Closed(jobs[1], 0, 10, 0)]
    assert (money(first), money(later)) == ((90, 0), (93, 0))


def test_sixteen_threads_hold_exactly_what_the_wallet_has(open_tenant: Open) -> None:
    tenant = open_tenant(25)

    def hold_until_refused() -> int:
        held = 0
        while True:
            try:
                hold_one(tenant, 1)
            except InsufficientCredits:
                return held
            held += 1

    threads = [in_another_connection(hold_until_refused) for _ in range(16)]
    assert sum(future.result(SECONDS) for future in threads) == 25
    assert ledger.balances(tenant) == ledger.WalletBalance(posted=25, held=25, available=0, credit_limit=0)


def test_of_two_refunds_the_second_counts_the_first(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job = hold_one(tenant, 10)
    ledger.settle([Closing(job, 0, 10)])
    with transaction.atomic():
        assert ledger.refund(job, 0, 6, "a")
        same = in_another_connection(lambda: ledger.refund(job, 0, 6, "a"))
        other = in_another_connection(lambda: ledger.refund(job, 0, 5, "b"))
        wait_until_blocked_by_us()
    assert same.result(SECONDS) is False
    with pytest.raises(RefundExceedsCharge):
        other.result(SECONDS)
    assert money(tenant) == (96, 0)


def test_a_hold_reserves_what_the_first_left_of_each_lot(open_tenant: Open) -> None:
    tenant = open_tenant(60)
    ledger.grant(tenant, 60, "gift", category="promo")
    with transaction.atomic():
        hold_one(tenant, 50)
        second = in_another_connection(lambda: hold_one(tenant, 50))
        wait_until_blocked_by_us()
    second.result(SECONDS)
    assert lots(tenant) == [(f"opening:{tenant}", 60, 40), ("gift", 60, 60)]


def test_what_expired_while_a_hold_waited_is_not_held(open_tenant: Open) -> None:
    tenant = open_tenant(20)
    ledger.grant(tenant, 50, "gift", priority=1, expires_at=SOON)
    job = hold_one(tenant, 50)
    let_expire("gift")
    with transaction.atomic():
        hold_one(tenant, 10)
        ledger.release([(job, 0)], "failed")  # its credits are free from here on, and past their time
        second = in_another_connection(lambda: hold_one(tenant, 15))
        wait_until_blocked_by_us()
    with pytest.raises(InsufficientCredits) as refusal:
        second.result(SECONDS)
    assert (refusal.value.available, refusal.value.held) == (10, 10)
    assert (money(tenant), ledger.expire_due(), money(tenant)) == ((70, 10), 50, (20, 10))


def test_what_is_freed_and_due_while_a_hold_waits_expires_first(open_tenant: Open) -> None:
    tenant = open_tenant(5)
    ledger.grant(tenant, 50, "gift", expires_at=SOON)
    job = hold_one(tenant, 50)
    let_expire("gift")
    with transaction.atomic():
        ledger.settle([Closing(job, 0, 20)])
        second = in_another_connection(lambda: hold_one(tenant, 1))
        wait_until_blocked_by_us()
    second.result(SECONDS)
    assert (money(tenant), lots(tenant)) == ((5, 1), [(f"opening:{tenant}", 5, 1)])


def test_a_sweep_passes_over_a_busy_wallet(open_tenant: Open) -> None:
    busy, idle = open_tenant(), open_tenant()
    for tenant, amount in ((busy, 10), (idle, 20)):
        ledger.grant(tenant, amount, f"gift {tenant}", expires_at=SOON)
        let_expire(f"gift {tenant}")
    with transaction.atomic():
        ledger.lock_wallets([busy])
        assert in_another_connection(ledger.expire_due).result(SECONDS) == 20
    assert ledger.expire_due() == 10


def test_a_floor_waits_for_the_hold_before_it(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=50)
    with transaction.atomic():
        hold_one(tenant, 40)
        second = in_another_connection(lambda: ledger.set_floor(tenant, -30))
        wait_until_blocked_by_us()
    with pytest.raises(FloorInUse):
        second.result(SECONDS)
