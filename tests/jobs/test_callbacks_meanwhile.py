"""A callback counts whatever is done between its arrival and its being learned: its attempt has another fence, or has ended."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jobs import asking, callbacks, calls, restoring, transitions
from jobs.flight import Flight
from jobs.models import Evidence, Job, LateCompletion
from jobs.queries import flights
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_asking import TAKEN, finished, poll_type, sent
from tests.jobs.test_callbacks import DONE_BODY, REFERENCE, RUNNING_BODY, SAYS, told_job
from upstream.answer import read

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def sent_once() -> Job:
    """Its answer is lost, and its key may be sent again."""
    job, flight = sent(poll_type(mode="callback", poll=None, callback={**SAYS, **REFERENCE}, idempotent=True))
    factories.learn(flight, factories.CUT)
    return job


def arrived(job: Job) -> Flight:
    flight = flights.of_attempt(attempt_of(job).pk)
    assert flight is not None
    return flight


def learn(flight: Flight, body: Any) -> bool:
    said = read(200, {"content-type": "application/json"}, json.dumps(body).encode())
    return callbacks.told(flight, calls.call_of(flight, to_send=False), said)


def sent_again(job: Job) -> None:
    db.let_time_pass(60)
    assert [flight.action for flight in asking.verify([job.pk], HOLDER)] == ["submit"]


def sent_again_and_answered(job: Job) -> None:
    db.let_time_pass(60)
    factories.learn(asking.verify([job.pk], HOLDER)[0], TAKEN)


def went_back(_job: Job) -> None:
    restoring.restored(note="test")


MEANWHILE = [sent_again, sent_again_and_answered, went_back]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("text", ["made", "x" * 2_000_000])
def test_an_end_counts_for_the_fence_that_stands_by_then(meanwhile: Callable[[Job], None], text: str) -> None:
    job = sent_once()
    flight = arrived(job)
    meanwhile(job)
    assert attempt_of(job).fence > flight.fence
    assert learn(flight, {**DONE_BODY, "output": {"text": text}})
    assert (attempt_of(job).verdict, session_of(job).state) == ("succeeded", "available")
    job = finished(job)
    assert (job.state, job.charged) == ("completed", 3_000_000)
    assert isinstance(job.result, dict)
    assert ("file" in job.result) == (len(text) > 4)
    assert LateCompletion.objects.count() == 0
    assert Evidence.objects.filter(kind="callback").count() == 1


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_news_counts_for_it_too(meanwhile: Callable[[Job], None]) -> None:
    job = sent_once()
    flight = arrived(job)
    meanwhile(job)
    leased = attempt_of(job).lease_until
    assert learn(flight, RUNNING_BODY)
    attempt = attempt_of(job)
    assert (attempt.reference, attempt.progress, attempt.lease_until) == ("task-1", 0.5, leased)


def test_what_ends_meanwhile_and_could_be_asked_for_is_told_of_as_late() -> None:
    job, sent_flight = told_job(polled=True)
    factories.learn(sent_flight, TAKEN)
    flight = arrived(job)
    db.execute("UPDATE jobs_attempt SET asked_at = called_at + interval '1 hour', verdict = 'unknown'")
    db.let_time_pass(3_600)
    assert asking.verify([job.pk], HOLDER) == []
    assert attempt_of(job).ended_at is not None
    assert learn(flight, DONE_BODY)
    assert Evidence.objects.filter(kind="callback").count() == 1
    assert LateCompletion.objects.get().job_id == job.pk
    transitions.finish([job.pk])
    assert finished(job).state == "failed"
