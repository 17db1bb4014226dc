"""Two connections at one attempt that is asked for: asking passes over what others have, and nobody waits in a circle."""

from collections.abc import Callable

import pytest
from django.db import transaction

from jobs import asking, transitions
from jobs.flight import Flight
from jobs.models import Attempt, Job
from jobs.queries import flights
from pool import transitions as sessions
from pool.models import Pool, Resource
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.factories import HOLDER
from tests.jobs.test_races import second_passes, second_waits, standing

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = "http://127.0.0.1:2"


def test_an_answer_that_waits_for_a_new_sending_is_too_late() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    first = factories.dispatch(job)
    db.let_time_pass(16)
    transitions.doubt([job.pk])
    sent, _ = second_waits(lambda: asking.verify([job.pk], HOLDER), lambda: factories.learn(first, factories.SUCCESS))
    assert sent[0].fence > first.fence
    assert standing(job) == ("processing", "busy", 1, 10)


def test_a_new_sending_passes_over_what_an_answer_is_about_to_end() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    first = factories.dispatch(job)
    db.let_time_pass(16)
    transitions.doubt([job.pk])
    _, sent = second_passes(lambda: factories.learn(first, factories.SUCCESS), lambda: asking.verify([job.pk], HOLDER))
    assert sent == []
    assert standing(job) == ("processing", "available", 0, 10)


def test_of_two_verifiers_one_sends() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    factories.learn(factories.dispatch(job), factories.CUT)
    db.let_time_pass(5)
    verify = lambda: len(asking.verify([job.pk], HOLDER))  # noqa: E731
    assert second_passes(verify, verify) == (1, 0)
    assert factories.attempt_of(job).sendings == 2


def test_asking_passes_over_what_somebody_has_locked_and_asks_for_the_rest() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=2), idempotent=True)
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(2)]
    transitions.assign(job_type.pool_id)
    for flight in transitions.dispatch([job.pk for job in jobs], HOLDER):
        factories.learn(flight, factories.CUT)
    db.let_time_pass(5)
    with transaction.atomic():
        db.rows("SELECT id FROM jobs_attempt WHERE job_id = %s FOR UPDATE", [jobs[0].pk])
        sent = in_another_connection(lambda: asking.verify([job.pk for job in jobs], HOLDER)).result(RACE_SECONDS)
    assert [flight.job_id for flight in sent] == [jobs[1].pk]


def test_asking_and_an_operator_do_not_wait_for_each_other_in_a_circle() -> None:
    """Some sessions are let go, others get a new fence, and an operator wants them all: all lock them by their ids."""
    job_type = factories.make_job_type(factories.make_pool(sessions=4), idempotent=True, max_runtime_ms=1_000)
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(4)]
    transitions.assign(job_type.pool_id)
    for flight in transitions.dispatch([job.pk for job in jobs], HOLDER):
        factories.learn(flight, factories.CUT)
    Attempt.objects.filter(job__in=jobs[:2]).update(sendings=9)
    db.let_time_pass(60)
    ids = list(Resource.objects.order_by("-id").values_list("pk", flat=True))
    with transaction.atomic():
        sent = asking.verify([job.pk for job in jobs], HOLDER)
        other = in_another_connection(lambda: sessions.quarantine(ids, 60, "an operator"))
        wait_until_blocked_by_us()
    assert (len(sent), other.result(RACE_SECONDS)) == (2, 4)


def declared_elsewhere_meanwhile(job: Job, verb: Callable[[], list[Flight]]) -> list[Flight]:
    """While the verb waits for the session of the job, a configuration is applied."""
    with transaction.atomic():
        db.rows("SELECT id FROM pool_resource WHERE id = %s FOR UPDATE", [factories.attempt_of(job).resource_id])
        going = in_another_connection(verb)
        wait_until_blocked_by_us()
        Pool.objects.filter(pk=job.pool_id).update(upstream={**job.pool.upstream, "base_url": ELSEWHERE})
    return going.result(RACE_SECONDS)


def test_a_key_is_not_sent_to_a_place_that_is_declared_while_its_sending_begins() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    factories.learn(factories.dispatch(job), factories.CUT)
    db.let_time_pass(5)
    assert declared_elsewhere_meanwhile(job, lambda: asking.verify([job.pk], HOLDER)) == []
    attempt = factories.attempt_of(job)
    assert (attempt.verdict, attempt.lease_until, attempt.ended_at) == ("unknown", None, None)
    assert attempt.look_at is not None
    assert factories.session_of(job).state == "busy"
    db.let_time_pass(3_600)
    assert asking.verify([job.pk], HOLDER) == [], "it is waited out"
    assert factories.attempt_of(job).ended_at is not None


def test_an_attempt_keeps_what_its_call_was_made_of_when_that_is_declared_while_it_begins() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    (sent,) = declared_elsewhere_meanwhile(job, lambda: transitions.dispatch([job.pk], HOLDER))
    assert sent.upstream["base_url"] == ELSEWHERE
    assert sent.declared_as_called
    assert [flight.declared_as_called for flight in flights.opened([sent.attempt_id])] == [True]
