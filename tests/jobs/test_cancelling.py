"""A cancel is a wish: the session and the money follow what the upstream makes of it."""

from typing import Any

import pytest

from credits.models import Hold
from jobs import asking, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.models import Job
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_asking import (
    DONE,
    FIND,
    NOBODY_KNOWS,
    RUNNING,
    STOPPED,
    TAKEN,
    WISH_TAKEN,
    accepted,
    finished,
    poll_type,
    sent,
)

pytestmark = pytest.mark.django_db
CANCEL = {"method": "DELETE", "path": "'/tasks/' + reference", "success": "response.status == 200"}


def wanted(**blocks: Any) -> Job:
    """A job at the upstream that its tenant wants no more."""
    job = accepted(poll_type(cancel=CANCEL, **blocks))
    assert not transitions.cancel(job.pk)
    return job


def asked_to(job: Job, after_seconds: float = 0) -> list[Flight]:
    db.let_time_pass(after_seconds)
    return asking.cancel_upstream([job.pk])


def test_the_upstream_is_asked_to_stop_once() -> None:
    job = wanted()
    (flight,) = asked_to(job)
    assert (flight.action, flight.row["reference"]) == ("cancel", "task-1")
    assert asked_to(job) == []
    job.refresh_from_db()
    assert (job.state, session_of(job).state) == ("processing", "busy")


def test_one_that_it_stopped_is_cancelled_and_costs_nothing() -> None:
    job = wanted()
    (flight,) = asked_to(job)
    factories.learn(flight, STOPPED)
    assert session_of(job).state == "available"
    job = finished(job)
    assert (job.state, job.charged, Hold.objects.get(job_id=job.pk).status) == ("cancelled", 0, "released")


def test_a_wish_that_was_taken_keeps_the_session_until_a_poll_says_that_it_is_over() -> None:
    job = wanted()
    (flight,) = asked_to(job)
    factories.learn(flight, WISH_TAKEN)
    assert session_of(job).state == "busy"
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, RUNNING)
    assert asked_to(job, 60) == [], "it was taken"
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, STOPPED)
    assert finished(job).state == "cancelled"


def test_one_that_was_done_all_the_same_is_completed_and_charged() -> None:
    job = wanted()
    factories.learn(asked_to(job)[0], WISH_TAKEN)
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, DONE)
    job = finished(job)
    assert (job.state, job.charged) == ("completed", 3_000_000)


def test_an_unanswered_wish_is_repeated_a_few_times() -> None:
    job = wanted()
    sent_times = 0
    for _ in range(10):
        for flight in asked_to(job, 50):
            sent_times += 1
            factories.learn(flight, NOBODY_KNOWS)
    assert sent_times == 5
    assert attempt_of(job).cancel_at is None
    assert session_of(job).state == "busy"


def test_a_wish_of_before_the_answer_waits_for_the_reference() -> None:
    job, flight = sent(poll_type(cancel=CANCEL))
    transitions.cancel(job.pk)
    assert asked_to(job) == []
    factories.learn(flight, TAKEN)
    assert len(asked_to(job, 2)) == 1


def test_a_wish_that_is_taken_leaves_the_call_that_is_under_way_alone() -> None:
    by_key = {"path": "'/tasks/any?key=' + dispatch_key"}
    job, flight = sent(poll_type(cancel=by_key, find=FIND, idempotent=True))
    transitions.cancel(job.pk)
    (wish,) = asked_to(job)
    factories.learn(wish, WISH_TAKEN)
    db.execute("UPDATE jobs_attempt SET called_at = called_at - interval '1 minute'")
    assert asking.verify([job.pk], HOLDER) == []
    attempt = attempt_of(job)
    assert (attempt.phase, attempt.verdict, attempt.look_at, attempt.sendings) == ("calling", "", None, 1)
    factories.learn(flight, TAKEN)
    assert attempt_of(job).reference == "task-1"


def test_of_two_words_at_once_the_success_counts() -> None:
    job = wanted()
    (wish,) = asked_to(job)
    (poll,) = due(job)
    transitions.learn([Finding.of_answer(wish, STOPPED), Finding.of_answer(poll, DONE)])
    assert finished(job).state == "completed"


def due(job: Job) -> list[Flight]:
    db.let_time_pass(3)
    return asking.verify([job.pk], HOLDER)


def test_an_upstream_that_cannot_cancel_runs_on() -> None:
    job = accepted()
    transitions.cancel(job.pk)
    assert asked_to(job) == []
    assert attempt_of(job).cancel_at is None
    db.let_time_pass(3)
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, DONE)
    assert finished(job).state == "completed"
