"""Which credits are used first, when they expire, and that debt is paid before anything is free."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from credits import ledger
from credits.errors import InsufficientCredits, LedgerConflict
from credits.ledger import Closing, Expiring, HoldRequest
from credits.models import HoldLot, Transfer
from tests.credits.conftest import hold_one, let_expire, lots, money

pytestmark = pytest.mark.django_db
Open = Callable[..., int]
SOON = datetime.now(UTC) + timedelta(days=1)  # after all tests, however long they take
LATER = SOON + timedelta(days=1)


def expired() -> int:
    return sum(Transfer.objects.filter(code="expire").values_list("amount", flat=True))


def grant_seven(tenant: int) -> list[str]:
    """Lots of 10 credits; the order in which they are to be used."""
    for source, category, priority, expires_at in [
        ("last", "promo", 60, SOON),
        ("paid", "paid", 50, None),
        ("gift", "promo", 50, None),
        ("later gift", "promo", 50, None),
        ("later", "promo", 50, LATER),
        ("soon", "paid", 50, SOON),
        ("first", "paid", 10, None),
    ]:
        ledger.grant(tenant, 10, source, category=category, priority=priority, expires_at=expires_at)
    return ["first", "soon", "later", "gift", "later gift", "paid", "last"]


def test_lots_are_used_by_priority_then_expiry_then_gifts_before_paid_then_age(open_tenant: Open) -> None:
    tenant = open_tenant()
    order = grant_seven(tenant)
    ledger.hold(tenant, [HoldRequest(uuid4(), 0, 7) for _ in range(10)], 60)
    stretch = [(number * 7, number * 7 + 7) for number in range(10)]
    expected = [
        (number, source, min(end, place * 10 + 10) - max(start, place * 10))
        for number, (start, end) in enumerate(stretch)
        for place, source in enumerate(order)
        if start < place * 10 + 10 and place * 10 < end
    ]
    first = HoldLot.objects.order_by("hold")[0].hold_id
    parts = HoldLot.objects.values_list("hold", "lot__source_key", "amount")
    assert {(hold - first, source.removeprefix("grant:"), amount) for hold, source, amount in parts} == set(expected)


def test_a_hold_that_one_lot_covers_stands_on_the_next_in_the_same_order(open_tenant: Open) -> None:
    tenant = open_tenant()
    for source in grant_seven(tenant):
        job = hold_one(tenant, 10)
        assert HoldLot.objects.get(hold__job_id=job).lot.source_key == f"grant:{source}"


def test_a_settlement_uses_the_lots_in_their_order_and_frees_the_rest(open_tenant: Open) -> None:
    tenant = open_tenant()
    ledger.grant(tenant, 30, "paid")
    ledger.grant(tenant, 20, "gift", category="promo")
    job = hold_one(tenant, 45)
    assert lots(tenant) == [("paid", 30, 25), ("gift", 20, 20)]
    ledger.settle([Closing(job, 0, 22)])
    assert lots(tenant) == [("paid", 28, 0)]
    assert sorted(HoldLot.objects.values_list("lot__category", "amount", "captured")) == [
        ("paid", 25, 2),
        ("promo", 20, 20),
    ]


def test_a_release_frees_what_was_reserved(open_tenant: Open) -> None:
    tenant = open_tenant(50)
    job = hold_one(tenant, 45)
    ledger.release([(job, 0)], "cancelled")
    assert [left[1:] for left in lots(tenant)] == [(50, 0)]
    assert list(HoldLot.objects.values_list("captured", flat=True)) == [0]


def test_expired_credits_are_taken_before_a_hold_looks(open_tenant: Open) -> None:
    tenant = open_tenant(20)
    ledger.grant(tenant, 30, "gift", category="promo", expires_at=SOON)
    let_expire("gift")
    assert ledger.balances(tenant) == ledger.WalletBalance(posted=50, held=0, available=20, credit_limit=0)
    with pytest.raises(InsufficientCredits) as refusal, transaction.atomic():
        hold_one(tenant, 21)
    assert (refusal.value.available, refusal.value.held) == (20, 0)
    assert (money(tenant), expired()) == ((50, 0), 0)
    hold_one(tenant, 20)
    assert (money(tenant), expired()) == ((20, 20), 30)


def test_a_refused_hold_leaves_the_wallet_also_to_who_goes_on_in_sql(open_tenant: Open) -> None:
    """The caller rolls back; until then the balance says what it said."""
    from credits import queries

    tenant = open_tenant(20)
    ledger.grant(tenant, 30, "gift", expires_at=SOON)
    let_expire("gift")
    with transaction.atomic():
        assert queries.place_holds(tenant, [uuid4()], [0], [21], 60, paced=False)[1] == "credits"
        assert money(tenant) == (50, 0)
        transaction.set_rollback(True)


def test_a_reserved_part_expires_only_when_its_hold_has_freed_it(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    ledger.grant(tenant, 50, "gift", priority=1, expires_at=SOON)
    charged, released = hold_one(tenant, 20), hold_one(tenant, 10)
    let_expire("gift")
    assert ledger.expire_due() == 20
    assert lots(tenant)[1] == ("gift", 30, 30)
    ledger.settle([Closing(charged, 0, 15)])
    ledger.release([(released, 0)], "failed")
    assert lots(tenant)[1] == ("gift", 15, 0)
    assert ledger.balances(tenant).available == 100
    hold_one(tenant, 100)
    assert expired() == 35
    assert sorted(Transfer.objects.filter(code="expire").values_list("amount", flat=True)) == [15, 20]
    assert ledger.expire_due() == 0


def test_a_hold_on_paid_credits_keeps_no_gift_alive(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    ledger.grant(tenant, 50, "gift", priority=90, expires_at=SOON)
    hold_one(tenant, 100)
    let_expire("gift")
    assert ledger.expire_due() == 50
    assert money(tenant) == (100, 100)


def test_what_is_used_on_credit_is_paid_by_the_next_lot(open_tenant: Open) -> None:
    tenant = open_tenant(10, credit_limit=100)
    ledger.settle([Closing(hold_one(tenant, 60), 0, 60)])
    assert (money(tenant), lots(tenant)) == ((-50, 0), [])
    ledger.grant(tenant, 30, "first")
    assert (money(tenant), lots(tenant)) == ((-20, 0), [])
    ledger.grant(tenant, 30, "second")
    assert (money(tenant), lots(tenant)) == ((10, 0), [("second", 10, 0)])


def test_what_a_closing_frees_pays_debt_first(open_tenant: Open) -> None:
    tenant = open_tenant(50, credit_limit=100)
    backed, on_credit = hold_one(tenant, 50), hold_one(tenant, 40)
    ledger.settle([Closing(on_credit, 0, 40)])
    assert (money(tenant), lots(tenant)) == ((10, 50), [(f"opening:{tenant}", 50, 50)])
    ledger.release([(backed, 0)], "failed")
    assert (money(tenant), lots(tenant)) == ((10, 0), [(f"opening:{tenant}", 10, 0)])


def test_debt_is_taken_once_also_from_several_lots(open_tenant: Open) -> None:
    tenant = open_tenant(30, credit_limit=100)
    ledger.grant(tenant, 30, "second")
    backed, on_credit = hold_one(tenant, 60), hold_one(tenant, 40)
    ledger.settle([Closing(on_credit, 0, 40)])
    ledger.release([(backed, 0)], "failed")
    assert (money(tenant), lots(tenant)) == ((20, 0), [("second", 20, 0)])


def test_what_was_held_on_credit_is_charged_to_a_lot_that_came_meanwhile(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=100)
    job = hold_one(tenant, 40)
    ledger.grant(tenant, 100, "invoice")
    ledger.settle([Closing(job, 0, 30)])
    assert (money(tenant), lots(tenant)) == ((70, 0), [("invoice", 70, 0)])


def test_expired_credits_pay_no_debt(open_tenant: Open) -> None:
    tenant = open_tenant(credit_limit=100)
    ledger.grant(tenant, 50, "gift", expires_at=SOON)
    backed, on_credit = hold_one(tenant, 50), hold_one(tenant, 40)
    let_expire("gift")
    ledger.settle([Closing(on_credit, 0, 40)])
    ledger.release([(backed, 0)], "failed")
    assert (money(tenant), lots(tenant), expired()) == ((-40, 0), [], 50)


def test_the_key_of_a_grant_stands_for_all_its_terms(open_tenant: Open) -> None:
    tenant = open_tenant()
    assert ledger.grant(tenant, 10, "g", category="promo", priority=5, expires_at=SOON)
    assert not ledger.grant(tenant, 10, "g", "grant_promo", priority=5, expires_at=SOON)
    for other in ({"priority": 6}, {"expires_at": LATER}, {"expires_at": None}, {"category": "paid"}):
        with pytest.raises(LedgerConflict), transaction.atomic():
            ledger.grant(tenant, 10, "g", **{"category": "promo", "priority": 5, "expires_at": SOON, **other})
    with pytest.raises(ValueError, match="a grant is one of"):
        ledger.grant(tenant, 10, "other", "gift")
    assert money(tenant) == (10, 0)


def test_what_expires_next_is_told_without_what_is_reserved(open_tenant: Open) -> None:
    tenant = open_tenant(5)
    ledger.grant(tenant, 10, "soon", expires_at=SOON)
    ledger.grant(tenant, 20, "soon too", expires_at=SOON)
    ledger.grant(tenant, 30, "later", expires_at=LATER)
    hold_one(tenant, 12)
    assert ledger.expiring(tenant) == [Expiring(SOON, 18), Expiring(LATER, 30)]
    let_expire("soon too")
    assert ledger.expiring(tenant) == [Expiring(LATER, 30)]


def test_expiring_is_bounded_by_wallets(open_tenant: Open) -> None:
    tenants = [open_tenant() for _ in range(3)]
    for tenant in tenants:
        ledger.grant(tenant, 10, f"gift {tenant}", expires_at=SOON)
        let_expire(f"gift {tenant}")
    assert [ledger.expire_due(2), ledger.expire_due(2), ledger.expire_due(2)] == [20, 10, 0]
    assert [money(tenant) for tenant in tenants] == [(0, 0)] * 3
