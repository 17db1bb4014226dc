"""A credit line is a limit and a floor that go together; a floor in use stays."""

import pytest
from django.db import transaction

from credits import ledger
from credits.errors import InsufficientCredits, NoWallet
from credits.lines import Line, line_of, set_line
from tenants.models import Tenant
from tests.credits.conftest import hold_one
from tests.db import in_another_connection, wait_until_blocked_by_us
from tests.factories import MICRO, make_tenant

pytestmark = pytest.mark.django_db


def test_a_raised_line_admits_what_it_says_and_no_more() -> None:
    tenant = make_tenant(credits=10)
    assert set_line(tenant.pk, 5 * MICRO) == line_of(tenant.pk) == Line(5 * MICRO, -5 * MICRO, 0, 15 * MICRO)
    hold_one(tenant.pk, 15 * MICRO)
    assert line_of(tenant.pk) == Line(5 * MICRO, -5 * MICRO, 5 * MICRO, 0)
    with pytest.raises(InsufficientCredits), transaction.atomic():
        hold_one(tenant.pk, 1)


@pytest.mark.parametrize(("limit", "floor"), [(3, -3), (2, -5), (0, -5), (5, -5)])
def test_a_lowered_line_takes_the_floor_along_unless_it_is_in_use(limit: int, floor: int) -> None:
    tenant = make_tenant(credits=10)
    set_line(tenant.pk, 5 * MICRO)
    hold_one(tenant.pk, 13 * MICRO)
    foreseen = line_of(tenant.pk).moved_to(limit * MICRO)
    assert set_line(tenant.pk, limit * MICRO) == foreseen == line_of(tenant.pk)
    assert (foreseen.floor, foreseen.in_use) == (floor * MICRO, 3 * MICRO)
    assert foreseen.available == ledger.balances(tenant.pk).available == (limit - 3) * MICRO


def test_the_floor_follows_when_the_same_line_is_set_again_after_the_use() -> None:
    tenant = make_tenant(credits=0)
    set_line(tenant.pk, 5 * MICRO)
    job_id = hold_one(tenant.pk, 4 * MICRO)
    assert set_line(tenant.pk, MICRO).floor == -5 * MICRO
    ledger.release([(job_id, 0)], "cancelled")
    assert line_of(tenant.pk) == Line(MICRO, -5 * MICRO, 0, MICRO)
    assert set_line(tenant.pk, MICRO) == Line(MICRO, -MICRO, 0, MICRO)


def test_one_without_a_wallet_has_no_line() -> None:
    tenant = Tenant.objects.create(name="bare")
    for ask in (lambda: line_of(tenant.pk), lambda: set_line(tenant.pk, 1)):
        with pytest.raises(NoWallet):
            ask()


@pytest.mark.django_db(transaction=True)
def test_a_line_set_while_a_hold_is_placed_counts_that_hold() -> None:
    tenant = make_tenant(credits=0)
    set_line(tenant.pk, 5 * MICRO)
    with transaction.atomic():
        hold_one(tenant.pk, 4 * MICRO)
        lowered = in_another_connection(lambda: set_line(tenant.pk, MICRO))
        wait_until_blocked_by_us()
    assert lowered.result(20) == Line(MICRO, -5 * MICRO, 4 * MICRO, -3 * MICRO)
