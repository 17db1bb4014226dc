"""A cancel in each phase of a job's life: what it does at once, what it leaves alone, and how the job ends after it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import asking, results, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.models import Attempt, Job
from jobs.queries import flights
from tests import db, factories
from tests.factories import CUT, FAILURE, MICRO, SUCCESS, attempt_of, money, session_of
from tests.jobs.test_asking import STOPPED, accepted, ask
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
HELD = (1_000 * MICRO, 10 * MICRO)


def with_a_turn() -> Job:
    return factories.at("pending")


def without_a_turn() -> Job:
    """Behind its tenant's own job, which fills the window."""
    job_type, tenant = factories.make_job_type(factories.make_pool(window=1)), factories.make_tenant()
    factories.submit(tenant, job_type)
    return factories.submit(tenant, job_type)


def for_later() -> Job:
    return factories.at("pending", run_at=timezone.now() + timedelta(hours=1))


def in_back_off() -> Job:
    return factories.at("backing_off")


def unaffordable() -> Job:
    job_type = factories.make_job_type(factories.make_tracked_pool(1))
    job = factories.submit(factories.make_tenant(), job_type)
    transitions.assign(job_type.pool_id)
    return job


def assigned() -> Job:
    return factories.at("assigned")


NO_TURN = [without_a_turn, for_later, in_back_off, unaffordable]
BEFORE_THE_CALL = [with_a_turn, *NO_TURN, assigned]


@pytest.mark.parametrize("phase", BEFORE_THE_CALL, ids=lambda phase: str(phase.__name__))
def test_what_was_not_sent_is_cancelled_at_once_and_only_once(phase: Callable[[], Job]) -> None:
    job = phase()
    job.refresh_from_db()
    assert (job.state, job.turn is None) == ("assigned" if phase is assigned else "pending", phase in NO_TURN)
    posted, held = money(job.tenant)
    assert transitions.cancel(job.pk) is True
    job.refresh_from_db()
    error = {"code": "cancelled", "message": "cancelled on request", "retryable": False}
    assert (job.state, job.error, money(job.tenant)) == ("cancelled", error, (posted, held - 10 * MICRO))
    assert not Attempt.objects.filter(ended_at=None).exists()
    assert db.value("SELECT state FROM pool_resource WHERE pool_id = %s", [job.pool_id]) == "available"
    before = db.everything()
    assert transitions.cancel(job.pk) is False
    assert db.everything() == before, "the second finds it cancelled"


def calling() -> Job:
    return factories.at("processing")


def at_the_upstream() -> Job:
    return accepted()


def unknown() -> Job:
    """Its worker's connection was cut; nobody can be asked."""
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), CUT)
    return job


def unknown_and_lost() -> Job:
    """Its worker died under it."""
    job = factories.at("processing")
    db.let_time_pass(16)
    assert transitions.doubt([job.pk]) == 1
    return job


IN_USE = [calling, at_the_upstream, unknown, unknown_and_lost]


@pytest.mark.parametrize("phase", IN_USE, ids=lambda phase: str(phase.__name__))
def test_what_may_run_is_asked_to_end_and_keeps_session_and_money(phase: Callable[[], Job]) -> None:
    job = phase()
    tenant = job.tenant
    assert transitions.cancel(job.pk) is False
    job.refresh_from_db()
    assert (job.state, session_of(job).state, money(tenant)) == ("processing", "busy", HELD)
    asked = job.cancel_requested_at
    assert asked is not None
    version = job.version
    assert transitions.cancel(job.pk) is False
    job.refresh_from_db()
    assert (job.cancel_requested_at, job.version) == (asked, version), "the second wish is the first"


@pytest.mark.parametrize(
    ("outcome", "state", "charged"), [(STOPPED, "cancelled", 0), (SUCCESS, "completed", 3), (CUT, "cancelled", 0)]
)
@pytest.mark.parametrize("phase", IN_USE, ids=lambda phase: str(phase.__name__))
def test_what_the_upstream_did_decides_then(
    phase: Callable[[], Job], outcome: Outcome, state: str, charged: int
) -> None:
    job = phase()
    transitions.cancel(job.pk)
    factories.learn(ask(job) if phase is at_the_upstream else _flight(job), outcome)
    if outcome is CUT:  # nobody learns it: its session is over by max_runtime, and the wish is done
        assert session_of(job).state == "busy"
        _wait_it_out(job)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged, session_of(job).state) == (state, charged * MICRO, "available")
    assert money(job.tenant) == ((1_000 - charged) * MICRO, 0)


@pytest.mark.parametrize(("outcome", "state", "charged"), [(SUCCESS, "completed", 3), (FAILURE, "cancelled", 0)])
def test_one_that_has_ended_and_was_not_finished_yet_ends_by_what_it_did(
    outcome: Outcome, state: str, charged: int
) -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), outcome)
    assert transitions.cancel(job.pk) is False
    assert session_of(job).state == "available", "its session is free whatever the job says"
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged) == (state, charged * MICRO)
    assert money(job.tenant) == ((1_000 - charged) * MICRO, 0)


def test_one_whose_result_is_owing_is_done_and_stays_so() -> None:
    """The work was done and is paid for: there is nothing left to cancel, and the result is brought."""
    upstream = {"mode": "sync", "submit": {"path": "'/run'"}, "result_files": {"urls": "''"}}
    job = factories.at("assigned", factories.make_job_type(upstream=upstream))
    links = {"0": "http://127.0.0.1:9/a.png"}
    done = Outcome(over=True, verdict="succeeded", units=3.0, files=links)
    results.learn([Finding(factories.dispatch(job), done)])
    assert attempt_of(job).fetch_at is not None
    assert transitions.cancel(job.pk) is False
    assert transitions.finish([job.pk]) == 0, "it still owes its result"
    job.refresh_from_db()
    assert (job.state, session_of(job).state, attempt_of(job).verdict) == ("processing", "available", "succeeded")
    assert money(job.tenant) == HELD
    Attempt.objects.filter(job=job).update(fetch_at=None, links=None, result={"url": "brought"})
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3 * MICRO)


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_what_has_ended_stays_as_it_is(state: str) -> None:
    job = factories.at(state)
    before = db.everything()
    assert transitions.cancel(job.pk) is False
    assert db.everything() == before


def _flight(job: Job) -> Flight:
    return flights.opened([attempt_of(job).pk])[0]


def _wait_it_out(job: Job) -> None:
    for _ in range(5):
        db.let_time_pass(job.type.max_runtime_ms / 1_000 + 120)
        for flight in asking.verify([job.pk], factories.HOLDER):
            factories.learn(flight, CUT)
        if attempt_of(job).ended_at:
            return
