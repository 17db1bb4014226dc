"""Each arrow from where it begins: the state after, the money, the session, and what must not have changed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from credits.errors import InsufficientCredits
from credits.models import Hold
from jobs import transitions
from jobs.models import Attempt, Job
from pool import transitions as sessions
from tests import db, factories
from tests.factories import MICRO, money, session_of
from upstream.calls import Outcome
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def hold_of(job: Job) -> tuple[str, int, int | None]:
    hold = Hold.objects.get(job_id=job.pk, run=job.run)
    return hold.status, hold.amount, hold.captured


def test_a_submitted_job_is_held_has_a_turn_and_told_nobody() -> None:
    job = factories.at("pending")
    assert (job.turn, job.attempts, job.tries, job.run) == (0.0, 0, 0, 1)
    assert hold_of(job) == ("open", 10 * MICRO, None)
    assert money(job.tenant) == (1_000 * MICRO, 10 * MICRO)
    assert not Event.objects.exists()


def test_a_job_that_cannot_be_paid_is_not_there() -> None:
    tenant, job_type = factories.make_tenant(credits=19.999999), factories.make_job_type()
    factories.submit(tenant, job_type)
    before = db.everything()
    with pytest.raises(InsufficientCredits):
        factories.submit(tenant, job_type)
    assert db.everything() == before


def test_a_tenant_that_is_not_billed_is_held_nothing() -> None:
    tenant = factories.make_tenant(credits=0, billing="none")
    job = factories.at("completed", tenant=tenant)
    assert (job.price, job.charged) == (0, 0)
    assert not Hold.objects.exists()


def test_a_job_with_a_time_of_its_own_waits_without_a_turn() -> None:
    job = factories.at("pending", run_at=timezone.now() + timedelta(hours=1), priority=9)
    assert job.turn is None
    ready = factories.submit(job.tenant, job.type)
    ready.refresh_from_db()
    job.refresh_from_db()
    assert (ready.turn, job.turn) == (0.0, None)
    transitions.cancel(ready.pk)
    assert transitions.promote(job.pool_id, [job.tenant_id]) == 0
    assert transitions.assign(job.pool_id) == 0
    db.let_time_pass(3_601)
    assert transitions.come_due([job.pk]) == 1
    assert transitions.promote(job.pool_id, [job.tenant_id]) == 1
    assert transitions.assign(job.pool_id) == 1
    assert hold_of(job) == ("open", 10 * MICRO, None)


def test_an_assigned_job_has_an_attempt_and_a_lease_on_a_session_reserved_for_it() -> None:
    job = factories.at("assigned")
    attempt = factories.attempt_of(job)
    session = attempt.resource
    assert (attempt.phase, attempt.number, attempt.run, attempt.sendings, attempt.verdict) == ("intended", 1, 1, 0, "")
    assert attempt.dispatch_key == f"job.{job.pk}.a1"
    assert attempt.lease_until is not None
    assert (session.state, session.job_id, session.fence) == ("reserved", job.pk, attempt.fence)
    assert (job.attempts, job.tries, job.turn) == (1, 0, 0.0)
    assert (attempt.called_at, job.started_at) == (None, None)
    assert money(job.tenant) == (1_000 * MICRO, 10 * MICRO)


def test_a_pool_that_accepts_nothing_and_a_draining_session_are_given_nothing() -> None:
    job = factories.at("pending")
    db.execute("UPDATE pool_pool SET accepting = false")
    assert transitions.assign(job.pool_id) == 0
    db.execute("UPDATE pool_pool SET accepting = true")
    db.execute("UPDATE pool_resource SET accepting = false")
    assert transitions.assign(job.pool_id) == 0
    db.execute("UPDATE pool_resource SET accepting = true")
    assert transitions.assign(job.pool_id) == 1


def test_an_unassigned_job_keeps_its_turn_its_hold_and_its_tries() -> None:
    job = factories.at("assigned")
    turn, session = job.turn, session_of(job)
    db.let_time_pass(16)
    assert transitions.unassign([job.pk]) == 1
    job.refresh_from_db()
    session.refresh_from_db()
    attempt = factories.attempt_of(job)
    assert (job.state, job.turn, job.tries, job.attempts) == ("pending", turn, 0, 1)
    assert session.state == "available"
    assert (attempt.phase, attempt.verdict, attempt.error_code) == ("ended", "not_executed", "worker_lost")
    assert hold_of(job) == ("open", 10 * MICRO, None)
    assert transitions.assign(job.pool_id) == 1
    assert factories.attempt_of(job).dispatch_key == f"job.{job.pk}.a2"


def test_a_dispatched_job_occupies_its_session_before_anything_is_sent() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    attempt = factories.attempt_of(job)
    assert (flight.attempt_id, flight.fence, flight.repeat) == (attempt.pk, attempt.fence, False)
    assert (attempt.phase, attempt.sendings, attempt.holder) == ("calling", 1, factories.HOLDER)
    assert attempt.called_at is not None
    assert attempt.resource.state == "busy"
    job.refresh_from_db()
    assert (job.state, job.finished_at) == ("processing", None)
    assert job.started_at is not None
    assert hold_of(job) == ("open", 10 * MICRO, None)


def test_what_was_answered_lets_the_session_go_before_the_job_is_finished() -> None:
    job = factories.at("assigned", factories.make_job_type(factories.make_pool(cooldown_ms=0)))
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    assert session_of(job).state == "available"
    job.refresh_from_db()
    assert (job.state, job.result) == ("processing", None)
    assert hold_of(job) == ("open", 10 * MICRO, None)


def test_a_completed_job_is_charged_by_units_and_gives_back_the_rest() -> None:
    job = factories.at("completed")
    assert (job.result, job.error, job.charged, job.tries, job.flagged) == ({"url": "made"}, None, 3 * MICRO, 1, "")
    assert hold_of(job) == ("captured", 10 * MICRO, 3 * MICRO)
    assert money(job.tenant) == (997 * MICRO, 0)
    event = Event.objects.get()
    assert (event.type, event.job_id, event.job_run, event.tenant_id) == ("job.completed", job.pk, 1, job.tenant_id)
    assert event.job_version == job.version
    assert Attempt.objects.get().finished_at is not None


@pytest.mark.parametrize("units", [None, -3.0, float(10**12)])
def test_usage_that_makes_no_sense_costs_what_was_held_and_is_flagged(units: float | None) -> None:
    job = factories.at("assigned")
    factories.end(job, Outcome(over=True, verdict="succeeded", units=units, result={}))
    assert (job.state, job.charged) == ("completed", 10 * MICRO)
    assert job.flagged.startswith("settle: ")
    assert money(job.tenant) == (990 * MICRO, 0)


def test_usage_above_the_hold_is_not_charged_where_the_type_absorbs_it() -> None:
    job = factories.at("assigned")
    factories.end(job, Outcome(over=True, verdict="partial", units=25.0))
    assert (job.state, job.charged) == ("completed", 10 * MICRO)
    assert money(job.tenant) == (990 * MICRO, 0)


def test_a_rejected_job_fails_at_once_and_costs_nothing() -> None:
    job = factories.at("failed")
    assert job.error == {"code": "bad_prompt", "message": "", "retryable": False}
    assert (job.tries, job.attempts, job.charged, job.result) == (1, 1, 0, None)
    assert hold_of(job) == ("released", 10 * MICRO, None)
    assert money(job.tenant) == (1_000 * MICRO, 0)
    assert Event.objects.get().type == "job.failed"
    assert session_of(job).state == "available"


def test_a_retried_job_backs_off_without_a_turn_and_keeps_its_hold() -> None:
    job = factories.at("backing_off")
    assert (job.turn, job.tries, job.attempts, job.finished_at) == (None, 1, 1, None)
    assert job.due_at is not None
    assert hold_of(job) == ("open", 10 * MICRO, None)
    assert not Event.objects.exists()
    assert session_of(job).state == "available"


def test_tries_are_counted_up_to_max_attempts() -> None:
    job = factories.at("pending", factories.make_job_type(delivery="at_least_once"), max_attempts=3)
    for tries in (1, 2, 3):
        db.let_time_pass(400)
        transitions.come_due([job.pk])
        transitions.promote(job.pool_id, [job.tenant_id])
        assert transitions.assign(job.pool_id) == 1
        factories.end(job, factories.FAILURE)
        assert (job.tries, job.attempts) == (tries, tries)
        assert job.state == ("failed" if tries == 3 else "pending")
    assert job.error == {"code": "nsfw", "message": "refused by its filter", "retryable": True}
    assert money(job.tenant) == (1_000 * MICRO, 0)
    assert len(set(Attempt.objects.values_list("dispatch_key", flat=True))) == 3


def test_what_ran_and_failed_is_not_run_again_where_it_may_run_only_once() -> None:
    job = factories.at("assigned", factories.make_job_type(delivery="at_most_once"))
    factories.end(job, factories.FAILURE)
    assert (job.state, job.attempts, job.error["code"]) == ("failed", 1, "nsfw")
    assert money(job.tenant) == (1_000 * MICRO, 0)


def test_a_busy_upstream_costs_no_try_and_cools_the_session_as_long_as_it_asks() -> None:
    job = factories.at("assigned", max_attempts=1)
    before = db.value("SELECT clock_timestamp()")
    factories.end(job, factories.BUSY)
    after = db.value("SELECT clock_timestamp()")
    session = session_of(job)
    assert (job.state, job.tries, job.attempts) == ("pending", 0, 1)
    assert session.state == "cooldown"
    assert session.available_at is not None
    assert before <= session.available_at - timedelta(seconds=5) <= after
    # The session rests as long as the upstream asks; the job may take another one at once.
    assert job.due_at is not None
    assert (job.due_at - after).total_seconds() < 2
    assert sessions.release([session.pk]) == 0
    db.let_time_pass(6)
    assert sessions.release([session.pk]) == 1


def test_a_credential_that_cannot_be_opened_here_rests_the_session_and_takes_no_account_away() -> None:
    job = factories.at("assigned")
    factories.end(job, Outcome(over=True, verdict="not_executed", error_class="auth", error_code="credential"))
    assert (job.state, job.tries) == ("pending", 1)
    session = session_of(job)
    assert (session.state, session.disabled) == ("cooldown", False)
    assert session.available_at is not None
    assert (session.available_at - timezone.now()).total_seconds() > 25


def test_a_cooldown_is_kept_between_two_jobs() -> None:
    job = factories.at("completed", factories.make_job_type(factories.make_pool(cooldown_ms=2_000)))
    other = factories.submit(job.tenant, job.type)
    assert session_of(job).state == "cooldown"
    assert transitions.assign(job.pool_id) == 0
    db.let_time_pass(1)
    assert sessions.release([session_of(job).pk]) == 0
    db.let_time_pass(1.1)
    assert sessions.release([session_of(job).pk]) == 1
    assert transitions.assign(job.pool_id) == 1
    assert session_of(other).pk == session_of(job).pk


def test_an_expired_job_never_started_and_costs_nothing() -> None:
    job = factories.at("pending", start_deadline_ms=1_000)
    db.let_time_pass(2)
    assert transitions.expire([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.attempts) == ("failed", 0)
    assert job.error is not None
    assert job.error["code"] == "expired"
    assert hold_of(job) == ("released", 10 * MICRO, None)
    assert Event.objects.get().type == "job.failed"


def test_a_job_that_has_started_once_no_longer_expires() -> None:
    job = factories.at("backing_off", start_deadline_ms=1_000)
    db.let_time_pass(2)
    assert transitions.expire([job.pk]) == 0
    assert hold_of(job) == ("open", 10 * MICRO, None)


@pytest.mark.parametrize("state", ["pending", "backing_off", "assigned"])
def test_a_waiting_job_is_cancelled_and_all_is_given_back(state: str) -> None:
    job = factories.at(state)
    assert transitions.cancel(job.pk) is True
    job.refresh_from_db()
    assert (job.state, job.charged) == ("cancelled", 0)
    assert hold_of(job) == ("released", 10 * MICRO, None)
    assert money(job.tenant) == (1_000 * MICRO, 0)
    assert Event.objects.get().type == "job.cancelled"
    assert not Attempt.objects.filter(ended_at=None).exists()
    assert db.value("SELECT state FROM pool_resource") == "available"


def test_a_processing_job_is_asked_to_stop_and_keeps_its_session_until_it_ends() -> None:
    job = factories.at("processing")
    assert transitions.cancel(job.pk) is False
    job.refresh_from_db()
    assert job.state == "processing"
    assert job.cancel_requested_at is not None
    assert session_of(job).state == "busy"
    assert hold_of(job) == ("open", 10 * MICRO, None)


@pytest.mark.parametrize(
    ("outcome", "state", "charged"),
    [(factories.SUCCESS, "completed", 3), (factories.FAILURE, "cancelled", 0), (factories.BUSY, "cancelled", 0)],
)
def test_a_job_that_was_asked_to_stop_ends_as_the_upstream_ended(outcome: Outcome, state: str, charged: int) -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    transitions.cancel(job.pk)
    factories.learn(flight, outcome)
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.charged) == (state, charged * MICRO)
    assert money(job.tenant) == ((1_000 - charged) * MICRO, 0)
