"""Calls are made otherwise by now than the one that is in doubt: that nobody knows it there says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs import asking
from jobs.models import Job
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_asking import DONE, FIND, MISSING, OVER_SECONDS, ask, finished, poll_type, sent

pytestmark = pytest.mark.django_db


def in_doubt(**blocks: Any) -> Job:
    job, flight = sent(poll_type(**blocks))
    factories.learn(flight, factories.CUT)
    return job


def moved(job: Job) -> None:
    pool = job.pool
    pool.upstream = {**pool.upstream, "base_url": "http://127.0.0.1:2"}
    pool.save()


def asked_with_a_key(job: Job) -> None:
    block = job.type.upstream["submit"]
    job.type.upstream = {**job.type.upstream, "submit": {**block, "headers": {"Idempotency-Key": "dispatch_key"}}}
    job.type.save()


def account_moved(job: Job) -> None:
    account = attempt_of(job).account
    account.base_url = "http://127.0.0.1:2"
    account.save()


def endpoint_changed(job: Job) -> None:
    account = attempt_of(job).account
    account.vars = {"endpoint": "two"}
    account.save()


def slower(job: Job) -> None:
    """Nothing of the call itself."""
    block = job.type.upstream["submit"]
    job.type.upstream = {**job.type.upstream, "submit": {**block, "timeout": "50s"}}
    job.type.save()
    job.pool.upstream = {**job.pool.upstream, "poll_rate": [5, 1_000]}
    job.pool.save()


CHANGES = [(moved, False), (asked_with_a_key, False), (account_moved, False), (endpoint_changed, False), (slower, True)]


@pytest.mark.parametrize(("change", "believed"), CHANGES)
def test_that_its_key_is_not_known_is_believed_where_it_was_sent(change: Callable[[Job], None], believed: bool) -> None:
    job = in_doubt(find=FIND)
    change(job)
    factories.learn(ask(job, 60), MISSING)
    attempt = attempt_of(job)
    assert (attempt.verdict, attempt.ended_at is not None) == (
        ("not_executed", True) if believed else ("unknown", False)
    )
    assert session_of(job).state == ("available" if believed else "busy")


@pytest.mark.parametrize(("change", "again"), CHANGES)
def test_its_key_is_sent_again_as_it_was_sent(change: Callable[[Job], None], again: bool) -> None:
    job = in_doubt(idempotent=True)
    change(job)
    db.let_time_pass(60)
    assert [flight.action for flight in asking.verify([job.pk], HOLDER)] == (["submit"] if again else [])
    assert attempt_of(job).sendings == (2 if again else 1)


def test_a_success_is_believed_wherever_it_is_found_and_else_it_stays_unknown() -> None:
    found, never = in_doubt(find=FIND), in_doubt(find=FIND)
    moved(found)
    moved(never)
    factories.learn(ask(found, 60), DONE)
    assert finished(found).state == "completed"
    factories.learn(ask(never, 0), MISSING)
    factories.learn(ask(never, OVER_SECONDS), MISSING)
    db.let_time_pass(3_600)
    assert asking.verify([never.pk], HOLDER) == [], "it is waited out"
    job = finished(never)
    assert (job.state, job.error and job.error["code"]) == ("failed", "outcome_unknown")
    assert session_of(never).state == "available"
