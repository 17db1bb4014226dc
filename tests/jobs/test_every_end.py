"""Every way in which an attempt can end gives its session back, once, and leaves a hold with none but jobs that go on."""

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from credits.models import Hold
from jobs import asking, sweep, transitions
from jobs.findings import Finding
from jobs.models import Attempt, Job
from jobs.states import JOB
from pool import transitions as sessions
from pool.models import Resource
from tests import db, factories
from tests.factories import AWAY, BUSY, ERROR_500, FAILURE, HOLDER, REJECTED, SUCCESS
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db(transaction=True)
EACH = 20
LEASE_SECONDS, RUNTIME_SECONDS, LONGEST_REST_SECONDS = 16, 61, 7_200
Ids = Sequence[UUID]


def answered(outcome: Outcome) -> Callable[[Ids], None]:
    return lambda ids: factories.end_all(ids, outcome)


def cancelled_before_the_call(ids: Ids) -> None:
    for job_id in ids:
        transitions.cancel(job_id)


def cancelled_while_they_run(ids: Ids) -> None:
    flights = transitions.dispatch(ids, HOLDER)
    cancelled_before_the_call(ids)
    transitions.learn([Finding(flight, FAILURE) for flight in flights])
    transitions.finish(ids)


def taken_back_and_expired(ids: Ids) -> None:
    taken_back(ids)
    Job.objects.filter(pk__in=ids).update(start_deadline="2020-01-01T00:00:00Z")
    assert transitions.expire(ids) == EACH


def taken_back(ids: Ids) -> None:
    """Their workers were lost before the intent."""
    db.let_time_pass(LEASE_SECONDS)
    assert transitions.unassign(ids) == EACH


def waited_out(ids: Ids) -> None:
    """Their workers were lost in the middle of the call."""
    transitions.dispatch(ids, HOLDER)
    db.let_time_pass(LEASE_SECONDS)
    assert transitions.doubt(ids) == EACH
    db.let_time_pass(RUNTIME_SECONDS)
    assert asking.verify(ids, HOLDER) == []
    transitions.finish(ids)


def disabled_while_they_run(ids: Ids) -> None:
    flights = transitions.dispatch(ids, HOLDER)
    all_of_them = list(Resource.objects.values_list("pk", flat=True))
    assert sessions.disable(all_of_them, "a test") == EACH
    transitions.learn([Finding(flight, SUCCESS) for flight in flights])
    transitions.finish(ids)
    assert set(Resource.objects.values_list("state", flat=True)) == {"offline"}
    sessions.enable(all_of_them)


ENDS: dict[str, Callable[[Ids], None]] = {
    "success": answered(SUCCESS),
    "failure": answered(FAILURE),
    "refused": answered(REJECTED),
    "busy": answered(BUSY),
    "away": answered(AWAY),
    "error 500": answered(ERROR_500),
    "cancelled before the call": cancelled_before_the_call,
    "cancelled while it runs": cancelled_while_they_run,
    "taken back": taken_back,
    "taken back and expired": taken_back_and_expired,
    "waited out": waited_out,
    "disabled while it runs": disabled_while_they_run,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_session_is_free_after_every_end(end: str) -> None:
    pool = factories.make_pool(sessions=EACH, window=EACH, breaker={"failures": 1_000})
    tenant = factories.make_tenant()
    factories.submit_many(tenant, factories.make_job_type(pool), EACH)
    while transitions.assign(pool.pk):
        pass
    ids = list(Job.objects.filter(state="assigned").order_by("pk").values_list("pk", flat=True))
    assert len(ids) == EACH

    ENDS[end](ids)
    assert not Resource.objects.filter(state__in=["reserved", "busy"]).exists()
    assert not Attempt.objects.filter(ended_at=None).exists()
    waiting = Job.objects.exclude(state__in=JOB.terminal).count()
    assert waiting == (EACH if end in ("busy", "away", "taken back") else 0)
    assert Hold.objects.filter(status="open", attempt=0).count() == waiting
    assert factories.money(tenant)[1] == waiting * factories.MICRO

    cancelled_before_the_call(ids)  # what waits for another try needs none
    db.let_time_pass(LONGEST_REST_SECONDS)
    sweep.sweep()
    assert Resource.objects.filter(state="available").count() == EACH
    assert factories.money(tenant)[1] == 0
