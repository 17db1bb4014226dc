"""The balance of an upstream account: bought, charged by attempt, and corrected by what its provider says."""

from uuid import uuid4

import pytest
from django.db import transaction

from credits import upstream_accounts
from credits.errors import LedgerConflict
from credits.models import Reading
from jobs import transitions
from pool.models import Pool, UpstreamAccount
from tests.db import execute, in_another_connection, until_waiting
from tests.factories import MICRO, end, make_job_type, make_tenant, make_tracked_pool, submit
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db(transaction=True)


def left(pool: Pool) -> list[float]:
    """What its accounts have for new attempts, in credits."""
    found = upstream_accounts.available(pool.pk, [account.pk for account in pool.accounts.all()])
    return [amount / MICRO for _, amount in sorted(found.items())]


def posted(pool: Pool) -> list[float]:
    accounts = [account.pk for account in pool.accounts.order_by("id")]
    return [
        upstream_accounts.read(pool.pk, pk, 0, f"look-{Reading.objects.count()}", 0).posted / MICRO for pk in accounts
    ]


def test_sums_are_as_large_as_money_may_be() -> None:
    pool = make_tracked_pool(5_000_000)
    account = pool.accounts.get().pk
    assert upstream_accounts.read(pool.pk, account, 4_000_000 * MICRO, "r1").drift == -1_000_000 * MICRO
    assert upstream_accounts.read(pool.pk, account, 9_000_000 * MICRO, "r2").drift == 5_000_000 * MICRO
    job = submit(make_tenant(10_000_000), make_job_type(pool, price="5000000"))
    assert transitions.assign(pool.pk) == 1
    end(job, Outcome(over=True, verdict="succeeded", units=4_999_999.0))
    assert left(pool) == [4_000_001]


def test_of_two_who_close_an_attempt_at_once_one_charges_it() -> None:
    pool, job = make_tracked_pool(100), uuid4()
    account = pool.accounts.get().pk
    assert upstream_accounts.hold(pool.pk, [upstream_accounts.AttemptHold(account, job, 1, 1, 10 * MICRO)], 60)
    ends = [upstream_accounts.AttemptEnd(job, 1, 1, 4 * MICRO)]
    with transaction.atomic():
        execute("SELECT 1 FROM credits_balance FOR NO KEY UPDATE")
        both = [in_another_connection(lambda: upstream_accounts.close(ends)) for _ in range(2)]
        until_waiting(2)
    assert sorted(one.result(20) for one in both) == [0, 1]
    assert left(pool) == [96]


@pytest.mark.parametrize(
    ("said", "drift", "now"),
    [(100, 0, 100), (90, 0, 100), (85, -5, 95), (120, 20, 120), (-3, -93, 7)],
)
def test_a_reading_books_what_attempts_in_flight_do_not_explain(said: int, drift: int, now: int) -> None:
    pool = make_tracked_pool(100)
    submit(make_tenant(), make_job_type(pool))
    transitions.assign(pool.pk)  # 10 of the 100 are held
    account = pool.accounts.get()
    found = upstream_accounts.read(pool.pk, account.pk, said * MICRO, "r1")
    assert (found.posted, found.held, found.drift, found.booked) == (100 * MICRO, 10 * MICRO, drift * MICRO, True)
    assert upstream_accounts.read(pool.pk, account.pk, 0, "r1") == found, "the same reading again books nothing"
    assert posted(pool) == [now]


def test_a_key_of_a_top_up_is_one_accounts() -> None:
    pool = make_tracked_pool(0, 0)
    first, second = [account.pk for account in pool.accounts.order_by("id")]
    assert upstream_accounts.top_up(pool.pk, first, MICRO, "invoice")
    assert not upstream_accounts.top_up(pool.pk, first, MICRO, "invoice")
    with pytest.raises(LedgerConflict):
        upstream_accounts.top_up(pool.pk, second, MICRO, "invoice")


def test_a_reading_that_is_far_off_is_kept_and_not_booked() -> None:
    pool = make_tracked_pool(100)
    account = pool.accounts.get()
    found = upstream_accounts.read(pool.pk, account.pk, 0, "r1", most=50 * MICRO)
    assert (found.drift, found.booked, left(pool)) == (-100 * MICRO, False, [100])
    assert Reading.objects.count() == 1


def test_an_account_that_is_not_tracked_takes_no_reading() -> None:
    pool = make_tracked_pool(None)
    with pytest.raises(upstream_accounts.NotTracked):
        upstream_accounts.read(pool.pk, UpstreamAccount.objects.get().pk, 0, "r1")
