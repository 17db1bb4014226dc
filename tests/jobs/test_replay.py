"""A failed or cancelled job runs again: a new run with a new hold; history and attempt numbers go on."""

import pytest

from credits.errors import InsufficientCredits
from credits.models import Hold
from jobs import asking, transitions
from jobs.models import Attempt, Job, JobMove
from jobs.replays import NotReplayable, VersionChanged
from statemachine.actors import acting_as
from tests import db, factories
from tests.factories import AWAY, CUT, MICRO, SUCCESS, money
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def test_a_dead_letter_runs_again_and_is_charged_once() -> None:
    tenant = factories.make_tenant(credits=10)
    job = factories.at("failed", tenant=tenant)
    assert money(tenant) == (10 * MICRO, 0)
    with acting_as("admin:root"):
        job = transitions.replay(job.pk)
    assert (job.state, job.run, job.tries, job.error, job.finished_at) == ("pending", 2, 0, None, None)
    assert money(tenant) == (10 * MICRO, 10 * MICRO)
    assert JobMove.objects.filter(subject_id=job.pk).latest("id").actor == "admin:root"
    assert transitions.assign(job.pool_id) == 1
    job = factories.end(job, SUCCESS)
    assert (job.state, job.run, job.charged) == ("completed", 2, 3 * MICRO)
    assert money(tenant) == (7 * MICRO, 0)
    assert list(Attempt.objects.filter(job=job).order_by("number").values_list("number", "run")) == [(1, 1), (2, 2)]
    assert list(Hold.objects.filter(job_id=job.pk).order_by("run").values_list("run", "status")) == [
        (1, "released"),
        (2, "captured"),
    ]
    assert list(Event.objects.filter(job_id=job.pk).order_by("id").values_list("type", "job_run")) == [
        ("job.failed", 1),
        ("job.completed", 2),
    ]


def test_a_cancelled_job_runs_again() -> None:
    job = factories.at("cancelled")
    job = transitions.replay(job.pk)
    assert (job.state, job.run, job.cancel_requested_at) == ("pending", 2, None)
    assert job.turn is None, "as read before its turn was given"
    job.refresh_from_db()
    assert job.turn is not None


@pytest.mark.parametrize("state", ["pending", "assigned", "processing", "completed", "backing_off"])
def test_only_what_failed_or_was_cancelled_runs_again(state: str) -> None:
    job = factories.at(state)
    before = db.everything()
    with pytest.raises(NotReplayable, match="only a failed or cancelled one"):
        transitions.replay(job.pk)
    assert db.everything() == before


def test_a_second_replay_finds_it_pending() -> None:
    job = factories.at("failed")
    transitions.replay(job.pk)
    with pytest.raises(NotReplayable, match="the job is pending"):
        transitions.replay(job.pk)
    assert Hold.objects.filter(job_id=job.pk).count() == 2


def test_without_the_credits_nothing_changes() -> None:
    tenant = factories.make_tenant(credits=10)
    job = factories.at("failed", tenant=tenant)
    factories.submit(tenant, job.type)
    before = db.everything()
    with pytest.raises(InsufficientCredits):
        transitions.replay(job.pk)
    assert db.everything() == before


@pytest.mark.parametrize("closed", ["type", "tenant"])
def test_what_is_closed_does_not_begin_again(closed: str) -> None:
    job = factories.at("failed")
    thing = getattr(job, closed)
    thing.accepting = False
    thing.save(update_fields=["accepting"])
    before = db.everything()
    with pytest.raises(NotReplayable, match="is closed"):
        transitions.replay(job.pk)
    assert db.everything() == before


@pytest.mark.tampers
def test_an_attempt_whose_outcome_is_not_drawn_yet_forbids_it() -> None:
    job = factories.at("failed")
    Attempt.objects.filter(job=job).update(finished_at=None)
    with pytest.raises(NotReplayable, match="still being found out"):
        transitions.replay(job.pk)


def test_a_version_that_was_seen_must_still_stand() -> None:
    job = factories.at("failed")
    with pytest.raises(VersionChanged):
        transitions.replay(job.pk, job.version - 1)
    assert transitions.replay(job.pk, job.version).run == 2


def test_it_goes_to_the_end_of_its_tenants_line() -> None:
    job_type = factories.make_job_type(factories.make_pool(window=1))
    tenant = factories.make_tenant()
    job = factories.at("failed", job_type, tenant)
    first, second = (factories.submit(tenant, job_type) for _ in range(2))
    transitions.replay(job.pk)
    order = []
    for _ in range(3):
        assert transitions.assign(job_type.pool_id) == 1
        current = Job.objects.get(state="assigned")
        order.append(current.pk)
        factories.end(current, SUCCESS)
        transitions.promote(job_type.pool_id, [tenant.pk])
    assert order == [first.pk, second.pk, job.pk]


def test_the_new_run_has_as_long_to_start_as_the_first_had() -> None:
    job = factories.at("pending", start_deadline_ms=5_000)
    db.let_time_pass(6)
    assert transitions.expire([job.pk]) == 1
    job = transitions.replay(job.pk)
    assert job.start_deadline is not None
    assert (job.start_deadline - job.queued_at).total_seconds() == pytest.approx(5, abs=1)
    assert transitions.expire([job.pk]) == 0


def test_an_outcome_that_stayed_unknown_may_be_run_again_by_an_operator() -> None:
    job = factories.at("processing", factories.make_job_type(max_runtime_ms=1_000))
    attempt = factories.attempt_of(job)
    from jobs.queries import flights

    factories.learn(flights.opened([attempt.pk])[0], CUT)
    db.let_time_pass(17)
    asking.verify([job.pk], factories.HOLDER)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "outcome_unknown")
    assert transitions.replay(job.pk).run == 2


def test_the_crash_and_retry_budgets_begin_anew() -> None:
    job = factories.at("failed", factories.make_job_type(retry={"attempts": 2, "first_ms": 0}))
    transitions.replay(job.pk)
    assert transitions.assign(job.pool_id) == 1
    job = factories.end(job, AWAY)
    assert (job.state, job.tries) == ("pending", 1)


def test_a_dismissed_dead_letter_is_put_aside_until_it_runs_again() -> None:
    job, other = factories.at("failed"), factories.at("completed")
    assert transitions.dismiss([job.pk, other.pk]) == 1
    assert transitions.dismiss([job.pk]) == 0
    job.refresh_from_db()
    assert job.dismissed_at is not None
    assert transitions.replay(job.pk).dismissed_at is None


def test_a_free_job_of_a_billed_tenant_is_held_at_nothing_again() -> None:
    job = factories.at("failed", factories.make_job_type(price="0", settle=""))
    transitions.replay(job.pk)
    assert list(Hold.objects.filter(job_id=job.pk).order_by("run").values_list("run", "amount", "status")) == [
        (1, 0, "released"),
        (2, 0, "open"),
    ]
