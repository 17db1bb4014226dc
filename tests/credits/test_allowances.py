"""An allowance is granted once in each period, whoever asks and how often."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from credits import ledger
from credits.allowances import add, begin_of_next, enable, grant_allowances, newest_of
from credits.errors import NewerAllowance
from credits.models import Allowance, Lot
from tests.db import in_another_connection, wait_until_blocked_by_us
from tests.factories import make_tenant

pytestmark = pytest.mark.django_db
NOVEMBER = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


def allow(every: str, amount: int = 10, **fields: Any) -> Allowance:
    return Allowance.objects.create(tenant=make_tenant(credits=0), every=every, amount=amount, **fields)


def test_a_period_is_granted_once() -> None:
    monthly, daily = allow("month"), allow("day", 7)
    assert [grant_allowances(NOVEMBER), grant_allowances(NOVEMBER - timedelta(hours=5))] == [2, 0]
    assert grant_allowances(NOVEMBER - timedelta(days=1)) == 1  # another day of the same month
    assert grant_allowances(DECEMBER) == 2
    assert ledger.balances(monthly.tenant_id).posted == 20
    assert ledger.balances(daily.tenant_id).posted == 21
    assert list(Lot.objects.filter(amount=10).order_by("id").values_list("source_key", flat=True)) == [
        f"grant:allowance:{monthly.pk}:2026-11",
        f"grant:allowance:{monthly.pk}:2026-12",
    ]


@pytest.mark.parametrize(
    ("every", "lifetime_seconds", "expires_at"),
    [
        ("month", None, None),
        ("month", 0, DECEMBER),
        ("day", 0, DECEMBER),
        ("day", 3 * 86_400, datetime(2026, 12, 3, tzinfo=UTC)),
    ],
)
def test_a_grant_lives_from_the_begin_of_its_period(
    every: str, lifetime_seconds: int | None, expires_at: datetime | None
) -> None:
    allow(every, lifetime_seconds=lifetime_seconds, category="promo", priority=20)
    assert grant_allowances(NOVEMBER) == 1
    lot = Lot.objects.get()
    assert (lot.expires_at, lot.category, lot.priority) == (expires_at, "promo", 20)


def test_what_would_have_expired_by_now_is_not_granted() -> None:
    allow("month", lifetime_seconds=3600)
    assert grant_allowances(NOVEMBER) == 0
    assert not Lot.objects.exists()


def test_a_changed_allowance_counts_from_the_next_period() -> None:
    allowance = allow("month")
    grant_allowances(NOVEMBER)
    Allowance.objects.filter(pk=allowance.pk).update(amount=500)
    assert [grant_allowances(NOVEMBER), grant_allowances(DECEMBER)] == [0, 1]
    Allowance.objects.filter(pk=allowance.pk).update(enabled=False)
    assert grant_allowances(DECEMBER + timedelta(days=40)) == 0
    assert ledger.balances(allowance.tenant_id).posted == 510


def test_periods_follow_each_other_also_over_the_year() -> None:
    assert begin_of_next("month", datetime(2026, 12, 31, 12, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)
    assert begin_of_next("month", datetime(2027, 1, 1, tzinfo=UTC)) == datetime(2027, 2, 1, tzinfo=UTC)
    assert begin_of_next("day", datetime(2026, 12, 31, 12, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.usefixtures("within_one_day")
def test_the_clock_is_the_databases() -> None:
    allow("month")
    assert grant_allowances() == 1
    assert grant_allowances() == 0


@pytest.mark.parametrize(
    "fields", [{"amount": 0}, {"every": "week"}, {"category": "x"}, {"lifetime_seconds": -1}, {"amount": 10**15 + 1}]
)
def test_an_allowance_makes_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match="allowance_"), transaction.atomic():
        allow(**{"every": "day", **fields})


@pytest.mark.django_db(transaction=True)
def test_two_that_grant_at_once_grant_once() -> None:
    allowance = allow("day")
    with transaction.atomic():
        assert grant_allowances(NOVEMBER) == 1
        second = in_another_connection(lambda: grant_allowances(NOVEMBER))
        wait_until_blocked_by_us()
    assert second.result(20) == 0
    assert ledger.balances(allowance.tenant_id).posted == 10


def another(tenant_id: int, after: int) -> Allowance:
    return add(tenant_id, 10, "day", category="promo", priority=20, lifetime_seconds=0, after=after)


def test_one_is_added_after_the_newest_that_was_seen() -> None:
    tenant = make_tenant()
    first = another(tenant.pk, after=0)
    with pytest.raises(NewerAllowance, match=f"tenant {tenant.pk} was given another"):
        another(tenant.pk, after=0)
    second = another(tenant.pk, after=first.pk)
    assert newest_of(tenant.pk) == second.pk
    assert (second.lifetime_seconds, second.priority, second.enabled) == (0, 20, True)


def test_it_is_stopped_and_started_once() -> None:
    allowance = allow("day")
    assert [enable(allowance.pk, enabled=False), enable(allowance.pk, enabled=False)] == [True, False]
    assert grant_allowances(NOVEMBER) == 0
    assert [enable(allowance.pk, enabled=True), enable(allowance.pk, enabled=True)] == [True, False]
    assert grant_allowances(NOVEMBER) == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_that_add_at_once_one_does() -> None:
    tenant = make_tenant()
    with transaction.atomic():
        another(tenant.pk, after=0)
        second = in_another_connection(lambda: another(tenant.pk, after=0))
        wait_until_blocked_by_us()
    with pytest.raises(NewerAllowance):
        second.result(20)
    assert Allowance.objects.count() == 1
