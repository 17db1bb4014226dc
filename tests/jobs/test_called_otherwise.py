"""Calls are made otherwise by now than the one that is in doubt: that nobody knows it there says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs import asking, transitions
from jobs.models import Job
from jobs.queries import flights
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_asking import (
    BROKE,
    DONE,
    EVERY,
    FIND,
    MISSING,
    OVER_SECONDS,
    RUNNING,
    accepted,
    ask,
    finished,
    poll_type,
    sent,
)

pytestmark = pytest.mark.django_db
CANCEL = {"path": "'/tasks/' + reference"}


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


def labelled(job: Job) -> None:
    account = attempt_of(job).account
    account.labels = {"tier": "gold"}
    account.save()


def another_header(job: Job) -> None:
    job.pool.upstream = {**job.pool.upstream, "headers": {"X-Api-Version": "'2'"}}
    job.pool.save()


def slower(job: Job) -> None:
    """Nothing of the call itself."""
    block = job.type.upstream["submit"]
    job.type.upstream = {**job.type.upstream, "submit": {**block, "timeout": "50s"}}
    job.type.save()
    job.pool.upstream = {**job.pool.upstream, "poll_rate": [5, 1_000]}
    job.pool.save()


CHANGES = [
    (moved, False),
    (asked_with_a_key, False),
    (account_moved, False),
    (endpoint_changed, False),
    (labelled, False),
    (slower, True),
]


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


@pytest.mark.parametrize("change", [moved, account_moved, endpoint_changed])
def test_accepted_work_is_not_polled_where_its_reference_may_be_that_of_other_work(
    change: Callable[[Job], None],
) -> None:
    job = accepted()
    change(job)
    db.let_time_pass(2)
    assert asking.verify([job.pk], HOLDER) == []
    assert attempt_of(job).verdict == "unknown"
    assert session_of(job).state == "busy"
    db.let_time_pass(OVER_SECONDS)
    assert asking.verify([job.pk], HOLDER) == []
    job = finished(job)
    assert (job.state, job.error and job.error["code"], job.charged) == ("failed", "outcome_unknown", 0)


def test_accepted_work_is_found_where_it_is_declared_by_its_key() -> None:
    job = accepted(poll_type(find=FIND))
    moved(job)
    flight = ask(job)
    assert flight.action == "find"
    factories.learn(flight, DONE)
    assert finished(job).state == "completed"


def test_that_it_failed_elsewhere_is_not_believed() -> None:
    by_key = {**EVERY, "path": "'/tasks?key=' + dispatch_key"}
    found, polled = in_doubt(find=FIND), accepted(poll_type(poll=by_key))
    for job in (found, polled):
        moved(job)
        factories.learn(ask(job, 60), BROKE)
        assert (attempt_of(job).verdict, session_of(job).state) == ("unknown", "busy")
    factories.learn(ask(polled, 60), RUNNING)
    assert attempt_of(polled).phase == "accepted"


@pytest.mark.parametrize("change", [asked_with_a_key, labelled, another_header])
def test_work_that_is_only_begun_otherwise_by_now_is_polled_as_ever(change: Callable[[Job], None]) -> None:
    done, broke = accepted(), accepted()
    for job, outcome in ((done, DONE), (broke, BROKE)):
        change(job)
        flight = ask(job)
        assert flight.action == "poll"
        factories.learn(flight, outcome)
    assert (finished(done).state, finished(broke).state) == ("completed", "failed")


def test_work_that_is_declared_where_it_is_again_is_polled_at_last() -> None:
    job = accepted()
    before = job.pool.upstream
    moved(job)
    db.let_time_pass(2)
    assert asking.verify([job.pk], HOLDER) == []
    job.pool.upstream = before
    job.pool.save()
    factories.learn(ask(job, 60), DONE)
    assert finished(job).state == "completed", "a change that is put right costs a minute"


def test_an_adapter_of_ones_own_may_go_by_the_reference_too() -> None:
    job = accepted(poll_type(poll={"every": "1s"}, adapter="own"))
    assert [flight.ways.polls for flight in flights.opened([attempt_of(job).pk])] == [True]
    moved(job)
    assert [flight.ways.polls for flight in flights.opened([attempt_of(job).pk])] == [False]


@pytest.mark.parametrize("there", [True, False])
def test_the_word_of_the_upstream_is_confirmed_only_where_it_was_called(there: bool) -> None:
    job = accepted(poll_type(mode="callback", cancel=CANCEL))
    if not there:
        moved(job)
    (flight,) = flights.opened([attempt_of(job).pk])
    assert (flight.ways.polls, flight.ways.confirms, flight.ways.cancels) == (there, there, there)


def test_nothing_is_cancelled_elsewhere() -> None:
    here, elsewhere = accepted(poll_type(cancel=CANCEL)), accepted(poll_type(cancel=CANCEL))
    moved(elsewhere)
    for job, sent_there in ((here, ["cancel"]), (elsewhere, [])):
        transitions.cancel(job.pk)
        assert [flight.action for flight in asking.cancel_upstream([job.pk])] == sent_there
    elsewhere.pool.upstream = here.pool.upstream
    elsewhere.pool.save()
    db.let_time_pass(60)
    assert [flight.action for flight in asking.cancel_upstream([elsewhere.pk])] == ["cancel"], "it was put right"
