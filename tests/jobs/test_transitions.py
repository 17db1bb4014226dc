"""The full matrix: a verb asked of a job that stands where it does not begin changes nothing: no row, no money."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from jobs import asking, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.models import Attempt, Job
from jobs.queries import flights
from pool import transitions as sessions
from tests import db, factories
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db

STATES = ["pending", "backing_off", "assigned", "processing", "cancelling", "completed", "failed", "cancelled"]
VERBS: dict[str, Callable[[Job], Any]] = {
    "promote": lambda job: transitions.promote(job.pool_id, [job.tenant_id]),
    "assign": lambda job: transitions.assign(job.pool_id),
    "unassign": lambda job: transitions.unassign([job.pk]),
    "dispatch": lambda job: transitions.dispatch([job.pk], factories.HOLDER),
    "verify": lambda job: asking.verify([job.pk], factories.HOLDER),
    "cancel_upstream": lambda job: asking.cancel_upstream([job.pk]),
    "doubt": lambda job: transitions.doubt([job.pk]),
    "finish": lambda job: transitions.finish([job.pk]),
    "release": lambda job: sessions.release([factories.session_of(job).pk] if job.attempts else [10**9]),
    "come_due": lambda job: transitions.come_due([job.pk]),
    "expire": lambda job: transitions.expire([job.pk]),
    "cancel": lambda job: transitions.cancel(job.pk),
}
# Where a verb begins, with the time that has to pass for it (the lease, the back-off, the deadline: all at once).
BEGINS = {
    "promote": {"due"},
    "assign": {"pending"},
    "unassign": {"assigned"},
    "dispatch": {"assigned"},
    "verify": {"doubted"},
    "cancel_upstream": {"cancelling"},
    "doubt": {"processing", "cancelling"},
    "finish": {"ended"},
    "release": {"cooldown"},
    "come_due": {"backing_off"},
    "expire": {"pending"},
    "cancel": {"pending", "backing_off", "assigned", "processing"},
}


def job_in(state: str) -> Job:
    """With a deadline for its start, a back-off and a lease that an hour later have all passed."""
    return factories.at(state, start_deadline_ms=60_000)


@pytest.mark.parametrize(("state", "verb"), [(s, v) for v in VERBS for s in STATES if s not in BEGINS[v]])
def test_a_verb_changes_nothing_from_a_state_where_it_does_not_begin(state: str, verb: str) -> None:
    job = job_in(state)
    db.let_time_pass(3_600)
    before = db.everything()
    assert not VERBS[verb](job)
    assert db.everything() == before


@pytest.mark.parametrize(
    ("state", "verb"), [(s, v) for v, states in BEGINS.items() for s in sorted(states & set(STATES))]
)
def test_a_verb_changes_nothing_when_asked_again(state: str, verb: str) -> None:
    job = job_in(state)
    db.let_time_pass(3_600)
    first = VERBS[verb](job)
    # Asked for, not done; and this upstream knows no way to cancel.
    assert first or (state, verb) in (("processing", "cancel"), ("cancelling", "cancel_upstream"))
    before = db.everything()
    assert not VERBS[verb](job)
    assert db.everything() == before


@pytest.mark.parametrize(
    ("state", "verb"),
    [("assigned", "unassign"), ("processing", "doubt"), ("backing_off", "come_due"), ("pending", "expire")],
)
def test_what_time_brings_does_not_come_before_its_time(state: str, verb: str) -> None:
    job_type = factories.make_job_type(retry={"first_ms": 3_600_000, "max_ms": 3_600_000})
    job = factories.at(state, job_type, start_deadline_ms=60_000)
    if state == "backing_off":
        db.execute("UPDATE jobs_job SET due_at = now() + interval '1 minute'")
    before = db.everything()
    assert not VERBS[verb](job)
    assert db.everything() == before


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("promote", "assign", "release")])
def test_a_job_that_does_not_exist_is_nobodys_business(verb: str) -> None:
    job = job_in("pending")
    before = db.everything()
    assert not VERBS[verb](Job(pk=uuid4()))
    assert db.everything() == before
    assert job.state == "pending"


@pytest.mark.parametrize("state", ["pending", "backing_off", "cancelled", "completed", "failed"])
@pytest.mark.parametrize("outcome", [factories.SUCCESS, factories.CUT, factories.BUSY])
def test_what_is_learned_of_a_job_that_moved_on_is_kept_and_moves_nothing(state: str, outcome: Outcome) -> None:
    """A worker may answer for an attempt that others have ended, whatever became of the job since."""
    job = job_in(state)
    if state in ("pending", "cancelled"):
        job = late_of_assigned(state)
    attempt = Attempt.objects.get(job=job)
    finding = Finding(flight_of(attempt), outcome)
    before = db.everything()
    transitions.learn([finding])
    after = db.everything()
    assert len(after.pop("jobs_evidence")) == len(before.pop("jobs_evidence")) + 1
    late = outcome is factories.SUCCESS and state != "completed"
    assert len(after.pop("jobs_latecompletion")) == len(before.pop("jobs_latecompletion")) + late
    assert after == before


def late_of_assigned(state: str) -> Job:
    job = job_in("assigned")
    if state == "cancelled":
        transitions.cancel(job.pk)
    else:
        db.let_time_pass(3_600)
        transitions.unassign([job.pk])
    job.refresh_from_db()
    assert job.state == state
    return job


def flight_of(attempt: Attempt) -> Flight:
    flight = flights.of_attempt(attempt.pk)
    assert flight is not None
    return flight
