"""finish moves state, money and event of each job together, each job on its own merits."""

from typing import Any

import pytest

from jobs import transitions
from jobs.models import Attempt, Job
from tests import db, factories
from tests.factories import session_of
from upstream.calls import Outcome
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def ended_jobs(count: int, **fields: Any) -> list[Job]:
    """Jobs of one tenant whose attempts have ended well."""
    job_type = factories.make_job_type(factories.make_pool(sessions=count), **fields)
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(count)]
    assert transitions.assign(job_type.pool_id) == count
    for job in jobs:
        factories.learn(factories.dispatch(job), factories.SUCCESS)
    return jobs


def told_before(job: Job) -> None:
    """An event of this job's end is there already, so that the database refuses to write it."""
    Event.objects.create(tenant_id=job.tenant_id, type="job.completed", job_id=job.pk, job_run=job.run, body={})


def test_a_set_is_finished_in_one_go() -> None:
    jobs = ended_jobs(5)
    assert transitions.finish([job.pk for job in jobs]) == 5
    assert set(Job.objects.values_list("state", "charged")) == {("completed", 3 * factories.MICRO)}
    assert Event.objects.count() == 5
    assert factories.money(jobs[0].tenant) == ((1_000 - 15) * factories.MICRO, 0)


@pytest.mark.tampers
def test_a_poisoned_job_does_not_hold_up_the_others() -> None:
    jobs = ended_jobs(4)
    told_before(jobs[1])
    poisoned = db.rows("SELECT * FROM credits_hold WHERE job_id = %s", [jobs[1].pk])
    assert transitions.finish([job.pk for job in jobs]) == 3
    assert Job.objects.filter(state="completed").count() == 3
    jobs[1].refresh_from_db()
    assert (jobs[1].state, jobs[1].charged) == ("processing", 0)
    assert db.rows("SELECT * FROM credits_hold WHERE job_id = %s", [jobs[1].pk]) == poisoned
    assert factories.money(jobs[0].tenant) == ((1_000 - 9) * factories.MICRO, 10 * factories.MICRO)
    attempt = Attempt.objects.get(job=jobs[1])
    assert attempt.finished_at is None
    assert attempt.look_at is not None  # tried again later, by the sweep


@pytest.mark.tampers
def test_a_job_that_was_postponed_is_finished_once_its_trouble_is_over() -> None:
    (job,) = ended_jobs(1)
    told_before(job)
    assert transitions.finish([job.pk]) == 0
    Event.objects.all().delete()
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, Event.objects.count()) == ("completed", 1)


@pytest.mark.parametrize("policy", [{"first_ms": None}, {"factor": {}}, {"max_ms": "soon"}])
def test_a_retry_policy_that_makes_no_sense_holds_up_its_own_jobs_alone(policy: dict[str, object]) -> None:
    """It went in past the checks of the configuration, by hand."""
    good, bad = ended_jobs(1)[0], factories.at("assigned", factories.make_job_type(delivery="at_least_once"))
    factories.learn(factories.dispatch(bad), factories.FAILURE)
    bad.type.retry = policy
    bad.type.save(update_fields=["retry"])
    assert transitions.finish([good.pk, bad.pk]) == 1
    good.refresh_from_db()
    bad.refresh_from_db()
    assert (good.state, bad.state) == ("completed", "processing")
    assert Attempt.objects.get(job=bad).look_at is not None


def test_ends_of_every_kind_in_one_set_each_take_their_own_arrow() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=4))
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(4)]
    transitions.assign(job_type.pool_id)
    flights = [factories.dispatch(job) for job in jobs]
    transitions.cancel(jobs[3].pk)
    for flight, outcome in zip(
        flights, [factories.SUCCESS, factories.REJECTED, factories.AWAY, factories.FAILURE], strict=True
    ):
        factories.learn(flight, outcome)
    assert transitions.finish([job.pk for job in jobs]) == 4
    states = [Job.objects.get(pk=job.pk).state for job in jobs]
    assert states == ["completed", "failed", "pending", "cancelled"]
    assert factories.money(tenant) == (997 * factories.MICRO, 10 * factories.MICRO)
    assert set(Event.objects.values_list("type", flat=True)) == {"job.completed", "job.failed", "job.cancelled"}


def test_what_ends_makes_room_under_the_cap_in_the_same_transaction() -> None:
    tenant = factories.make_tenant(max_running=1)
    job_type = factories.make_job_type(factories.make_pool(sessions=2))
    first, second = factories.submit(tenant, job_type), factories.submit(tenant, job_type)
    assert second.turn is None
    transitions.assign(job_type.pool_id)
    factories.learn(factories.dispatch(first), factories.SUCCESS)
    second.refresh_from_db()
    assert second.turn is None
    assert transitions.finish([first.pk]) == 1
    second.refresh_from_db()
    assert second.turn is not None


@pytest.mark.parametrize("text", ["half \ud800 a pair", "nul \x00 inside", "x" * 400], ids=["surrogate", "nul", "long"])
def test_no_answer_can_keep_its_own_end_from_being_written(text: str) -> None:
    deep: Any = None
    for _ in range(900):
        deep = [deep]
    job = factories.at("assigned", factories.make_job_type(delivery="at_most_once"))
    said = {"error_code": text, "error_message": text, "reference": text, "result": deep}
    factories.end(job, Outcome(over=True, verdict="failed", **said))
    assert job.state == "failed"
    assert session_of(job).state == "available"
