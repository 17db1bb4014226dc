"""Open holds are found an hour later, once, without an index on what a closing writes."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import connection, transaction

from credits import ledger, reviews
from credits.models import Hold, HoldReview, HoldWalk
from tests import db
from tests.credits.conftest import hold_one, money
from tests.db import RACE_SECONDS, in_another_connection

pytestmark = pytest.mark.django_db
Open = Callable[..., int]
HOUR = 3_600.0
AGAIN = 3_600.0


def under_review() -> list[int]:
    return list(HoldReview.objects.order_by("hold_id").values_list("hold_id", flat=True))


def passed() -> int:
    return HoldWalk.objects.get().passed


def test_the_walk_stays_an_hour_behind_and_notes_what_is_open(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    closed, left_open = hold_one(tenant, 1), hold_one(tenant, 2)
    ledger.release([(closed, 0)], "failed")
    assert not reviews.are_due(HOUR)
    assert reviews.walk(HOUR) == 0
    db.let_holds_age(HOUR + 1)
    young = hold_one(tenant, 3)
    assert reviews.are_due(HOUR)
    assert reviews.walk(HOUR) == 2
    open_id = Hold.objects.get(job_id=left_open).pk
    assert (under_review(), passed()) == ([open_id], open_id)
    assert reviews.walk(HOUR) == 0
    reviews.take_due(AGAIN)
    db.let_holds_age(HOUR + 1)
    assert reviews.walk(HOUR) == 1
    assert under_review() == [open_id, Hold.objects.get(job_id=young).pk]


def test_a_review_is_due_once_and_then_later_again(open_tenant: Open) -> None:
    job_id = hold_one(open_tenant(100), 10)
    db.let_holds_age(HOUR + 1)
    reviews.walk(HOUR)
    (due,) = reviews.take_due(AGAIN)
    assert (due.job_id, due.run, due.attention) == (job_id, 0, "")
    assert reviews.take_due(AGAIN) == []
    assert not reviews.are_due(HOUR)
    db.let_holds_age(AGAIN + 1)
    assert [hold.hold_id for hold in reviews.take_due(AGAIN)] == [due.hold_id]


def test_the_review_of_a_closed_hold_is_dropped(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job_id = hold_one(tenant, 10)
    db.let_holds_age(HOUR + 1)
    reviews.walk(HOUR)
    ledger.release([(job_id, 0)], "failed")
    assert reviews.take_due(AGAIN) == []
    assert under_review() == []
    assert money(tenant) == (100, 0)


def test_nothing_is_released_by_time(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    hold_one(tenant, 10)
    for _ in range(50):
        db.let_holds_age(24 * HOUR)
        reviews.walk(HOUR)
        reviews.take_due(AGAIN)
    assert (Hold.objects.get().status, money(tenant)) == ("open", (100, 10))


def test_attention_is_raised_once_and_taken_back(open_tenant: Open) -> None:
    hold_one(open_tenant(100), 10)
    db.let_holds_age(HOUR + 1)
    reviews.walk(HOUR)
    (due,) = reviews.take_due(AGAIN)
    assert reviews.raise_attention({due.hold_id: "outcome_unknown"}) == [due.hold_id]
    since = HoldReview.objects.get().needs_attention_since
    assert reviews.raise_attention({due.hold_id: "overrunning"}) == []
    assert (HoldReview.objects.get().needs_attention_since, HoldReview.objects.get().attention) == (
        since,
        "outcome_unknown",
    )
    db.let_holds_age(reviews.ATTENTION_SECONDS + 1)
    assert [hold.attention for hold in reviews.take_due(AGAIN)] == ["outcome_unknown"]
    reviews.calm([due.hold_id])
    assert HoldReview.objects.get().needs_attention_since is None


def test_a_walk_is_bounded_and_goes_on_where_it_was(open_tenant: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "_WALK", reviews._WALK.replace(f"LIMIT {reviews.WALK}", "LIMIT 4"))
    tenant = open_tenant(100)
    ledger.hold(tenant, [ledger.HoldRequest(uuid4(), 0, 1) for _ in range(10)], HOUR)
    db.let_holds_age(HOUR + 1)
    assert [reviews.walk(HOUR) for _ in range(4)] == [4, 4, 2, 0]
    assert under_review() == list(Hold.objects.order_by("id").values_list("id", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_hold_committed_behind_others_is_not_passed_over(open_tenant: Open) -> None:
    """Its id is lower than that of a hold committed before it: the walk comes an hour after both."""
    slow, quick = open_tenant(100), open_tenant(100)
    with transaction.atomic():
        job_id = hold_one(slow, 10)
        in_another_connection(lambda: hold_one(quick, 10)).result(RACE_SECONDS)
        assert in_another_connection(lambda: reviews.walk(HOUR)).result(RACE_SECONDS) == 0
    assert Hold.objects.order_by("id").first() == Hold.objects.get(job_id=job_id)
    db.let_holds_age(HOUR + 1)
    assert reviews.walk(HOUR) == 2
    assert len(under_review()) == 2


@pytest.mark.django_db(transaction=True)
def test_a_second_walker_passes_by_and_a_second_reviewer_takes_others(open_tenant: Open) -> None:
    hold_one(open_tenant(100), 10)
    assert reviews.walk(HOUR) == 0
    db.let_holds_age(HOUR + 1)
    with transaction.atomic():
        assert reviews.walk(HOUR) == 1
        assert in_another_connection(lambda: reviews.walk(HOUR)).result(RACE_SECONDS) == 0
    with transaction.atomic():
        assert len(reviews.take_due(AGAIN)) == 1
        assert in_another_connection(lambda: reviews.take_due(AGAIN)).result(RACE_SECONDS) == []


def test_the_questions_are_answered_from_indexes(open_tenant: Open) -> None:
    """Also of many holds and reviews none but those that are due are read."""
    tenant = open_tenant(5_000)
    for _ in range(3):
        ledger.hold(tenant, [ledger.HoldRequest(uuid4(), 0, 1) for _ in range(1_000)], HOUR)
    db.let_holds_age(HOUR + 1)
    reviews.walk(HOUR)
    db.execute("UPDATE credits_holdreview SET due_at = now() + interval '1 hour'")
    db.execute("ANALYZE credits_hold, credits_holdreview")
    for sql in (reviews._DUE, reviews._TAKE):
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + sql, {"older": HOUR, "again": AGAIN})
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan on credits_hold" not in plan, plan
        assert "holdreview_due" in plan, plan


def test_a_late_completion_is_booked_once_and_leaves_the_wallet_alone(open_tenant: Open) -> None:
    tenant = open_tenant(100)
    job_id = hold_one(tenant, 10)
    assert ledger.book_late_completion(job_id, 0, 7) == 0, "its hold is open"
    ledger.release([(job_id, 0)], "failed")
    assert ledger.book_late_completion(job_id, 0, 7) == 7
    assert ledger.book_late_completion(job_id, 0, 7) == 0
    assert money(tenant) == (100, 0)
    assert ledger.statement(tenant)[0].code == "grant_paid"


@pytest.mark.parametrize(("held", "cost", "booked"), [(10, 25, 10), (10, 0, 0), (0, 7, 0)])
def test_a_late_completion_costs_at_most_what_was_held(open_tenant: Open, held: int, cost: int, booked: int) -> None:
    job_id = hold_one(open_tenant(100), held)
    ledger.release([(job_id, 0)], "failed")
    assert ledger.book_late_completion(job_id, 0, cost) == booked


def test_what_was_charged_or_never_held_has_no_late_completion(open_tenant: Open) -> None:
    job_id = hold_one(open_tenant(100), 10)
    ledger.settle([ledger.Closing(job_id, 0, 5)])
    assert ledger.book_late_completion(job_id, 0, 7) == 0
    assert ledger.book_late_completion(uuid4(), 0, 7) == 0
    with pytest.raises(ValueError, match="at least 0"):
        ledger.book_late_completion(job_id, 0, -1)


@pytest.mark.django_db(transaction=True)
def test_of_two_bookings_of_one_late_completion_one_is_made(open_tenant: Open) -> None:
    job_id = hold_one(open_tenant(100), 10)
    ledger.release([(job_id, 0)], "failed")
    with transaction.atomic():
        assert ledger.book_late_completion(job_id, 0, 7) == 7
        other = in_another_connection(lambda: ledger.book_late_completion(job_id, 0, 7))
        db.wait_until_blocked_by_us()
    assert other.result(RACE_SECONDS) == 0
