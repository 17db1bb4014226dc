"""A success that surfaces after its hold was given back: our loss, once, told; the tenant's wallet does not move."""

from typing import Any

import pytest
from django.db import transaction

from credits import ledger
from credits.models import Hold, Transfer
from jobs import asking, late, sweep, transitions
from jobs.flight import Flight
from jobs.models import Evidence, Job, LateCompletion
from jobs.queries import missed
from jobs.reviews import review
from jobs.transitions import REVIEW_SECONDS
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.factories import HOLDER, MICRO, money
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
PARTIAL = Outcome(over=True, verdict="partial", status=200, units=2.0, result={"url": "half"}, reference="theirs-1")
OURS = 1_000 * MICRO


def given_up(**fields: Any) -> tuple[Job, Flight]:
    """A job that failed with an unknown outcome, and the flight whose answer never came."""
    job = factories.at("assigned", factories.make_job_type(**fields))
    flight = factories.dispatch(job)
    factories.learn(flight, factories.ERROR_500)
    transitions.finish([job.pk])
    job.refresh_from_db()
    return job, flight


def entries() -> list[tuple[str, str, str, str, int]]:
    """(key, from, to, run of the hold, amount) of the late completions."""
    found = Transfer.objects.filter(code="late_completion").select_related("debit", "credit", "hold").order_by("id")
    return [(t.op_key, t.debit.kind, t.credit.kind, f"run {t.hold.run}", t.amount) for t in found if t.hold]


def again(job: Job) -> Flight:
    """The next attempt of a job that backs off, on its way."""
    db.let_time_pass(600)
    transitions.come_due([job.pk])
    transitions.promote(job.pool_id, [job.tenant_id])
    assert transitions.assign(job.pool_id) == 1
    return factories.dispatch(job)


@pytest.mark.parametrize(
    ("settle", "outcome", "worth"),
    [
        ("outcome.units", factories.SUCCESS, 3),
        ("outcome.units", PARTIAL, 2),
        ("", factories.SUCCESS, 10),
        ("outcome.units * 100.0", factories.SUCCESS, 10),
        ("outcome.units", Outcome(over=True, verdict="succeeded"), 10),
    ],
    ids=["by units", "partial", "no settle", "more than was held", "no usage"],
)
def test_a_late_success_is_booked_as_our_loss(settle: str, outcome: Outcome, worth: int) -> None:
    job, flight = given_up(settle=settle)
    factories.learn(flight, outcome)
    assert entries() == [], "booked in a transaction of its own"
    assert late.book([job.pk]) == 1
    assert entries() == [(f"late:{job.pk}:1", "loss", "revenue", "run 1", worth * MICRO)]
    assert money(job.tenant) == (OURS, 0)
    job.refresh_from_db()
    assert (job.state, job.charged) == ("failed", 0)
    assert job.flagged == f"late completion of run 1: {worth} credits are our loss"
    assert Hold.objects.get().status == "released"
    told = LateCompletion.objects.get()
    assert (told.attempt_id, told.booked, told.why) == (flight.attempt_id, worth * MICRO, "")
    assert told.reference == outcome.reference
    assert Evidence.objects.filter(attempt_id=flight.attempt_id).count() == 2


def test_a_second_late_answer_is_no_other_completion() -> None:
    job, flight = given_up()
    factories.learn(flight, PARTIAL)
    assert late.book([job.pk]) == 1
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 0
    assert [entry[-1] for entry in entries()] == [2 * MICRO]
    assert (LateCompletion.objects.count(), Evidence.objects.count()) == (1, 3)


@pytest.mark.parametrize("outcome", [factories.FAILURE, factories.REJECTED, factories.CUT, factories.ERROR_500])
def test_what_is_no_success_is_no_late_completion(outcome: Outcome) -> None:
    job, flight = given_up()
    factories.learn(flight, outcome)
    assert not LateCompletion.objects.exists()
    assert late.book([job.pk]) == 0


def test_a_success_that_is_told_twice_is_no_late_completion() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    for _ in range(2):
        factories.learn(flight, factories.SUCCESS)
        transitions.finish([job.pk])
    assert not LateCompletion.objects.exists()
    assert money(job.tenant) == (997 * MICRO, 0)


def test_a_failed_attempt_that_turns_out_to_have_succeeded_is_one_too() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    factories.learn(flight, factories.FAILURE)
    transitions.finish([job.pk])
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 1


def test_a_job_that_was_cancelled_while_it_ran_can_complete_late() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    transitions.cancel(job.pk)
    factories.learn(flight, factories.ERROR_500)
    transitions.finish([job.pk])
    assert Job.objects.get().state == "cancelled"
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 1
    assert money(job.tenant) == (OURS, 0)


def test_a_hold_that_is_open_by_mistake_is_given_back_first() -> None:
    tenant = factories.make_tenant(billing="none")
    job = factories.at("assigned", tenant=tenant)
    flight = factories.dispatch(job)
    factories.learn(flight, factories.ERROR_500)
    transitions.finish([job.pk])
    ledger.hold(tenant.pk, [ledger.HoldRequest(job.pk, job.run, 10 * MICRO)], REVIEW_SECONDS)
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 0
    assert LateCompletion.objects.get().decided_at is None
    db.let_holds_age(REVIEW_SECONDS + 61)
    review()
    assert late.book([job.pk]) == 1
    assert money(tenant) == (OURS, 0)


def test_nothing_is_booked_for_a_tenant_that_was_not_held() -> None:
    tenant = factories.make_tenant(credits=0, billing="none")
    job = factories.at("assigned", tenant=tenant)
    flight = factories.dispatch(job)
    factories.learn(flight, factories.ERROR_500)
    transitions.finish([job.pk])
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 0
    assert (entries(), LateCompletion.objects.get().why) == ([], "nothing was held")
    job.refresh_from_db()
    assert job.flagged == ""


def test_nothing_is_booked_for_what_would_have_cost_nothing() -> None:
    job, flight = given_up()
    factories.learn(flight, Outcome(over=True, verdict="succeeded", units=0.0))
    assert late.book([job.pk]) == 0
    assert LateCompletion.objects.get().why == "it would have cost nothing"


def test_after_a_replay_it_is_booked_on_the_run_it_was_of() -> None:
    job, flight = given_up()
    transitions.replay(job.pk)
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 1
    assert entries() == [(f"late:{job.pk}:1", "loss", "revenue", "run 1", 3 * MICRO)]
    job.refresh_from_db()
    assert (job.state, job.run) == ("pending", 2)
    assert job.flagged.startswith("late completion of run 1")
    assert money(job.tenant) == (OURS, 10 * MICRO)
    transitions.assign(job.pool_id)
    factories.end(job, factories.SUCCESS)
    assert money(job.tenant) == (997 * MICRO, 0)


def test_each_run_can_complete_late_by_itself() -> None:
    job, first = given_up()
    transitions.replay(job.pk)
    transitions.assign(job.pool_id)
    second = factories.dispatch(job)
    factories.learn(second, factories.ERROR_500)
    transitions.finish([job.pk])
    factories.learn(second, factories.SUCCESS)
    factories.learn(first, PARTIAL)
    assert late.book([job.pk]) == 2
    assert {entry[0]: entry[-1] for entry in entries()} == {
        f"late:{job.pk}:1": 2 * MICRO,
        f"late:{job.pk}:2": 3 * MICRO,
    }


def test_while_the_job_is_tried_again_it_waits_and_a_success_of_the_other_attempt_settles_it() -> None:
    """A settlement is of the attempt that answered: what the first one tells costs nothing more."""
    job, first = given_up(delivery="at_least_once")
    assert job.state == "pending"
    factories.learn(first, PARTIAL)
    assert late.book([job.pk]) == 0
    assert missed.late_completions() == [], "it is not asked again at once"
    factories.learn(again(job), factories.SUCCESS)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3 * MICRO)
    assert late.book([job.pk]) == 0
    assert LateCompletion.objects.get().why == "the run has its success"
    assert entries() == []
    assert money(job.tenant) == (997 * MICRO, 0)


def test_while_the_job_is_tried_again_it_waits_and_is_booked_when_the_run_fails() -> None:
    job, first = given_up(delivery="at_least_once")
    factories.learn(first, PARTIAL)
    assert late.book([job.pk]) == 0
    factories.learn(again(job), factories.REJECTED)
    transitions.finish([job.pk])
    assert late.book([job.pk]) == 1
    assert [entry[-1] for entry in entries()] == [2 * MICRO]


def test_a_success_under_an_old_fence_is_booked_when_the_run_then_fails() -> None:
    """The first sending answered after it was replaced; the second is never heard of."""
    job = factories.at("assigned", factories.make_job_type(idempotent=True, retry={"attempts": 1}))
    first = factories.dispatch(job)
    db.let_time_pass(16)
    transitions.doubt([job.pk])
    (second,) = asking.verify([job.pk], HOLDER)
    factories.learn(first, factories.SUCCESS)
    assert late.book([job.pk]) == 0
    factories.learn(second, factories.CUT)
    db.let_time_pass(76)
    asking.verify([job.pk], HOLDER)
    transitions.finish([job.pk])
    assert Job.objects.get().state == "failed"
    assert late.book([job.pk]) == 1


def test_a_crash_between_the_answer_and_the_booking_is_made_good_by_the_sweep() -> None:
    job, flight = given_up()
    factories.learn(flight, factories.SUCCESS)  # no task is woken: the process died with its signals
    assert entries() == []
    db.execute("UPDATE jobs_latecompletion SET look_at = look_at - interval '1 second'")
    assert missed.late_completions() == [job.pk]
    sweep.sweep()
    assert (len(entries()), missed.late_completions()) == (1, [])


@pytest.mark.django_db(transaction=True)
def test_of_two_bookings_at_once_one_is_made() -> None:
    job, flight = given_up()
    factories.learn(flight, factories.SUCCESS)
    with transaction.atomic():
        assert late.book([job.pk]) == 1
        other = in_another_connection(lambda: late.book([job.pk]))
        wait_until_blocked_by_us()
    assert other.result(RACE_SECONDS) == 0
    assert len(entries()) == 1
    job.refresh_from_db()
    assert job.flagged.count("late completion") == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_late_answers_at_once_one_is_remembered() -> None:
    job, flight = given_up()
    with transaction.atomic():
        factories.learn(flight, factories.SUCCESS)
        other = in_another_connection(lambda: factories.learn(flight, PARTIAL))
        wait_until_blocked_by_us()
    other.result(RACE_SECONDS)
    assert LateCompletion.objects.get().units == 3.0
    late.book([job.pk])
    assert [entry[-1] for entry in entries()] == [3 * MICRO]


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_waits_for_the_end_of_its_attempt_is_late() -> None:
    """It came while the attempt was still open, and was second at its row."""
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    with transaction.atomic():
        factories.learn(flight, factories.ERROR_500)
        other = in_another_connection(lambda: factories.learn(flight, factories.SUCCESS))
        wait_until_blocked_by_us()
    other.result(RACE_SECONDS)
    transitions.finish([job.pk])
    late.book([job.pk])
    assert len(entries()) == 1
    assert money(job.tenant) == (OURS, 0)


@pytest.mark.django_db(transaction=True)
def test_a_late_answer_wakes_its_booking(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Any] = []
    monkeypatch.setattr("jobs.flow.wakes.wake", lambda task, arguments, **_: woken.append((task, arguments)))
    job, flight = given_up()
    woken.clear()
    factories.learn(flight, factories.SUCCESS)
    assert woken == [("book_late", ([str(job.pk)],))]
