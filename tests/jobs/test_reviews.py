"""The review of open holds: each row of its table, and nothing is released by time alone."""

from uuid import uuid4

import pytest
from django.db import transaction

from credits import ledger
from credits.models import Hold, HoldReview
from jobs import asking, reviews, sweep, transitions
from jobs.models import Job
from jobs.queries import attempts
from jobs.reviews import VERIFY_SECONDS, review
from jobs.transitions import REVIEW_SECONDS
from tenants.models import Tenant
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.factories import MICRO, money

pytestmark = pytest.mark.django_db
DAY = 24 * 3_600.0


def an_hour_passes(seconds: float = REVIEW_SECONDS + 61) -> None:
    db.let_time_pass(seconds)
    db.let_holds_age(seconds)


def in_doubt(**fields: object) -> Job:
    """A job whose outcome is unknown, of a type that may run for a week."""
    job = factories.at("assigned", factories.make_job_type(max_runtime_ms=int(7 * DAY * 1000), **fields))
    factories.learn(factories.dispatch(job), factories.CUT)
    return job


def held_after_its_end(state: str) -> tuple[Job, Tenant]:
    """A job that ended in `state` without a hold, and then was held, as no verb would do it."""
    tenant = factories.make_tenant(billing="none")
    job = factories.at(state, tenant=tenant)
    ledger.hold(tenant.pk, [ledger.HoldRequest(job.pk, job.run, 10 * MICRO)], REVIEW_SECONDS)
    return job, tenant


def attention() -> list[str]:
    return list(HoldReview.objects.exclude(attention="").order_by("hold_id").values_list("attention", flat=True))


@pytest.mark.parametrize("state", ["pending", "assigned", "processing", "backing_off", "cancelling"])
def test_a_job_that_lives_keeps_its_hold_however_long(state: str) -> None:
    job = factories.at(state)
    before = db.everything()
    for _ in range(3):
        db.let_holds_age(REVIEW_SECONDS + 61)
        assert review() == 1
    assert HoldReview.objects.get().due_at > db.value("SELECT now() + interval '59 minutes'")
    after = db.everything()
    changed = {table for table, rows in after.items() if rows != before[table]}
    assert changed == {"credits_hold", "credits_holdreview"}, "the hold by the time that passed"
    assert (Hold.objects.get().status, money(job.tenant)) == ("open", (1_000 * MICRO, 10 * MICRO))
    assert attention() == []


def test_a_young_hold_is_not_looked_at() -> None:
    factories.at("pending")
    assert review() == 0
    assert not HoldReview.objects.exists()


def test_an_ended_attempt_is_finished() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    an_hour_passes()
    assert review() == 1
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3 * MICRO)
    an_hour_passes()
    assert review() == 0
    assert not HoldReview.objects.exists(), "it leaves with the review that finds it closed"


def test_an_unknown_outcome_needs_attention_after_a_day_and_is_raised_once() -> None:
    job = in_doubt()
    an_hour_passes()
    assert review() == 1
    assert attention() == []
    an_hour_passes(VERIFY_SECONDS)
    review()
    assert attention() == ["outcome_unknown"]
    since = HoldReview.objects.get().needs_attention_since
    an_hour_passes(120)
    assert review() == 1
    assert HoldReview.objects.get().needs_attention_since == since
    assert Hold.objects.get(job_id=job.pk).status == "open"


def test_a_review_does_not_hurry_what_is_to_be_looked_at_later() -> None:
    """The verify comes at look_at, by the sweep; the review only asks."""
    job = in_doubt()
    looks = factories.attempt_of(job).look_at
    db.let_holds_age(DAY)
    review()
    assert factories.attempt_of(job).look_at == looks


def test_attention_is_taken_back_when_the_job_goes_on() -> None:
    job = in_doubt(delivery="at_least_once")
    an_hour_passes(VERIFY_SECONDS + REVIEW_SECONDS)
    review()
    assert attention() == ["outcome_unknown"]
    an_hour_passes(7 * DAY)
    assert asking.verify([job.pk], factories.HOLDER) == []
    transitions.finish([job.pk])
    assert Job.objects.get().state == "pending"
    review()
    assert attention() == []
    assert Hold.objects.get().status == "open"


def test_a_call_that_never_ends_needs_attention_when_it_is_beyond_its_runtime() -> None:
    job = factories.at("processing", factories.make_job_type(max_runtime_ms=int(2 * DAY * 1000)))
    call = factories.attempt_of(job)
    for found in ([], ["overrunning"]):  # at first it may still run
        an_hour_passes(DAY + 10)
        attempts.renew([(call.pk, call.fence)], 15)  # its worker lives
        review()
        assert attention() == found


@pytest.mark.tampers
def test_a_processing_job_without_an_attempt_needs_attention() -> None:
    job = factories.at("processing")
    db.execute(
        "UPDATE jobs_attempt SET phase = 'ended', ended_at = now(), finished_at = now() WHERE job_id = %s", [job.pk]
    )
    an_hour_passes()
    review()
    assert attention() == ["stranded"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_hold_of_a_job_that_ended_without_success_is_given_back(state: str) -> None:
    job, tenant = held_after_its_end(state)
    counted = orphans("released")
    an_hour_passes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "on_commit", lambda done, **_: done())
        review()
    job.refresh_from_db()
    assert (job.state, job.charged) == (state, 0)
    assert "left open; given back by its review" in job.flagged
    assert Hold.objects.get().status == "released"
    assert money(tenant) == (1_000 * MICRO, 0)
    assert orphans("released") == counted + 1


@pytest.mark.parametrize(("settle", "charged"), [("outcome.units", 3), ("", 10), ("outcome.units * 1000.0", 10)])
def test_a_hold_of_a_completed_job_is_charged_what_its_success_costs(settle: str, charged: int) -> None:
    tenant = factories.make_tenant(billing="none")
    job = factories.at("completed", factories.make_job_type(settle=settle), tenant)
    ledger.hold(tenant.pk, [ledger.HoldRequest(job.pk, job.run, 10 * MICRO)], REVIEW_SECONDS)
    an_hour_passes()
    review()
    job.refresh_from_db()
    assert (job.charged, Hold.objects.get().captured) == (charged * MICRO, charged * MICRO)
    assert money(tenant) == ((1_000 - charged) * MICRO, 0)
    assert "charged by its review" in job.flagged


def test_what_a_completed_job_was_told_it_is_charged_is_what_it_is_charged() -> None:
    _, tenant = held_after_its_end("completed")
    Job.objects.update(charged=5 * MICRO)
    an_hour_passes()
    review()
    assert Hold.objects.get().captured == 5 * MICRO
    assert money(tenant) == (995 * MICRO, 0)


@pytest.mark.parametrize("state", ["pending", "completed"])
def test_a_hold_without_a_job_or_of_an_earlier_run_is_given_back(state: str) -> None:
    job = factories.at(state)
    before = money(job.tenant)
    for job_id, run in ((uuid4(), 1), (job.pk, 0)):
        ledger.hold(job.tenant_id, [ledger.HoldRequest(job_id, run, MICRO)], REVIEW_SECONDS)
    an_hour_passes()
    assert review() == (3 if state == "pending" else 2)
    assert set(Hold.objects.exclude(job_id=job.pk, run=1).values_list("status", flat=True)) == {"released"}
    assert money(job.tenant) == before


@pytest.mark.tampers
def test_one_that_cannot_be_closed_holds_up_no_other() -> None:
    (first, _), (_, tenant) = held_after_its_end("completed"), held_after_its_end("failed")
    db.execute("UPDATE jobs_job SET charged = 10000000000000000 WHERE id = %s", [first.pk])
    an_hour_passes()
    assert review() == 2
    assert Hold.objects.get(job_id=first.pk).status == "open"
    assert money(tenant) == (1_000 * MICRO, 0)


def test_the_sweep_alone_reviews() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    Hold.objects.get(job_id=job.pk)
    db.let_holds_age(REVIEW_SECONDS + 61)
    sweep.sweep()
    job.refresh_from_db()
    assert job.state == "completed"


@pytest.mark.django_db(transaction=True)
def test_a_review_that_waits_for_a_finish_finds_nothing_left() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    db.let_holds_age(REVIEW_SECONDS + 61)
    with transaction.atomic():
        assert transitions.finish([job.pk]) == 1
        other = in_another_connection(review)
        wait_until_blocked_by_us()
    assert other.result(RACE_SECONDS) == 1
    job.refresh_from_db()
    assert (job.state, job.charged, job.flagged) == ("completed", 3 * MICRO, "")
    assert money(job.tenant) == (997 * MICRO, 0)


@pytest.mark.django_db(transaction=True)
def test_of_two_reviewers_one_closes_an_orphan() -> None:
    job, tenant = held_after_its_end("failed")
    db.let_holds_age(REVIEW_SECONDS + 61)
    review_rows = reviews.asked.facts(list(Hold.objects.values_list("id", flat=True)), VERIFY_SECONDS)
    with transaction.atomic():
        reviews._close(review_rows[0])
        other = in_another_connection(lambda: reviews._close(review_rows[0]))
        wait_until_blocked_by_us()
    other.result(RACE_SECONDS)
    job.refresh_from_db()
    assert job.flagged.count("left open") == 1
    assert money(tenant) == (1_000 * MICRO, 0)


@pytest.mark.django_db(transaction=True)
def test_a_second_reviewer_is_given_none_of_the_first() -> None:
    factories.at("pending")
    db.let_holds_age(REVIEW_SECONDS + 61)
    review()
    db.let_holds_age(REVIEW_SECONDS + 61)
    with transaction.atomic():
        assert review() == 1
        assert in_another_connection(review).result(RACE_SECONDS) == 0


def orphans(end: str) -> float:
    return float(reviews.orphans.labels(end)._value.get())
