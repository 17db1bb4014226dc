"""The one table of what happens next: whole, possible, and published as it says."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from celery import current_app
from celery.utils.saferepr import saferepr
from django.conf import settings
from django.db import transaction

from jobs import tasks, transitions
from jobs.flow import FLOW, WOKEN_BY, _jobs
from jobs.models import Attempt, Job
from jobs.states import JOB
from jobs.sweep import _VERBS
from pool import transitions as sessions
from pool.models import Resource
from pool.states import RESOURCE
from tests import factories
from tests.db import RACE_SECONDS, in_another_connection

QUEUES = ("assign", "transitions", "upstream")

# Facts that are no move of a machine, and are announced as if they were.
NAMED = {"job park", "job promote", "job come_due", "attempt ended", "attempt doubted", "attempt told"}
NAMED |= {"attempt owing", "cancel wanted", "completion late"}

# What wakes nothing, and why.
SILENT = {
    "job dispatch": "its call follows in the same task",
    "job complete": "an end: what it leaves room for is promoted with it",
    "job fail": "an end",
    "job cancel": "an end; its session tells by itself that it is free",
    "job cancel_ended": "an end",
    "job expire": "an end",
    "job replay": "the turn it is given wakes the claim",
    "resource reserve": "the job's own assign wakes its dispatch",
    "resource use": "the call follows",
    "resource disable": "out of use",
    "resource quarantine": "it rests until its time",
}


def test_every_step_is_swept_and_those_that_something_wakes_are_tasks() -> None:
    woken = {step.task for step in FLOW if step.after}
    for step in FLOW:
        assert callable(getattr(tasks, step.task, None)) == (step.task in woken), step.task
        assert (f"jobs.{step.task}" in current_app.tasks) == (step.task in woken), step.task
    assert {step.task for step in FLOW} == set(_VERBS)


def test_no_call_waits_for_what_is_asked_after_a_restore() -> None:
    assert [step.task for step in FLOW if step.needs_calls][-1] == "inquire"


def test_every_task_goes_to_a_queue_that_a_worker_reads() -> None:
    routes = current_app.conf.task_routes
    queues = {routes.get(f"jobs.{step.task}", {}).get("queue", current_app.conf.task_default_queue) for step in FLOW}
    assert queues == set(QUEUES)
    # What makes calls must run where the loop is; and what deletes files, where nobody waits for it.
    calling = {f"jobs.{step.task}" for step in FLOW if step.needs_calls and step.after}
    calling |= {"jobs.ask_balances", "jobs.clean_files"}
    assert calling == {task for task, route in routes.items() if route["queue"] == "upstream"}


def test_every_event_the_table_waits_for_can_happen() -> None:
    can = {f"job {verb}" for verb in JOB.arrows} | {f"resource {verb}" for verb in RESOURCE.arrows} | NAMED
    assert set(WOKEN_BY) <= can
    assert set(WOKEN_BY) | set(SILENT) == can, "an event either wakes something or says why not"
    assert not set(WOKEN_BY) & set(SILENT)


def test_a_task_that_waits_for_a_time_is_told_when() -> None:
    assert {step.task: step.at for step in FLOW if step.at} == {
        "verify": "look_at",
        "fetch": "fetch_at",
        "release": "available_at",
        "come_due": "due_at",
    }
    carried = {"job": JOB.carry, "resource": RESOURCE.carry}
    for step in FLOW:
        for event in step.after:
            kind = event.split()[0]
            assert not step.at or kind == "attempt" or step.at in carried[kind]


@pytest.fixture
def published() -> Iterator[Any]:
    """Reads, and takes, what was published since the last time: sorted (task, arguments)."""
    broker = redis.Redis.from_url(settings.REDIS_URL)

    def forget() -> None:
        for name in (*QUEUES, *broker.scan_iter("berth:awake:*")):
            broker.delete(name)

    def take() -> list[tuple[str, Any]]:
        sent = []
        for queue in QUEUES:
            while message := broker.lpop(queue):
                content = json.loads(message)
                sent.append((content["headers"]["task"], json.loads(base64.b64decode(content["body"]))[0]))
        forget()
        return sorted(sent)

    forget()
    yield take
    forget()
    broker.close()


@pytest.mark.django_db(transaction=True)
def test_each_commit_wakes_what_the_table_says(published: Any) -> None:
    job_type = factories.make_job_type(factories.make_pool(cooldown_ms=1_000, window=1), idempotent=True)
    job = factories.submit(factories.make_tenant(), job_type)
    pool, ids = job.pool_id, [str(job.pk)]
    assert published() == [("jobs.assign", [pool])]
    factories.submit(job.tenant, job_type)
    assert published() == []  # there is no room for it in the line

    transitions.assign(pool)
    assert published() == [("jobs.dispatch", [ids]), ("jobs.promote", [pool, [job.tenant_id]])]

    flight = factories.dispatch(job)
    assert published() == []

    factories.learn(flight, factories.CUT)
    assert published() == [("jobs.verify", [ids])]

    factories.learn(flight, factories.AWAY)
    session = Attempt.objects.get().resource_id
    assert published() == [("jobs.finish", [ids]), ("jobs.release", [[session]])]

    transitions.finish([job.pk])
    assert published() == [("jobs.come_due", [ids])]

    Job.objects.update(due_at="2026-01-01T00:00:00Z")
    transitions.come_due([job.pk])
    assert published() == [("jobs.promote", [pool, [job.tenant_id]])]

    transitions.promote(pool, [job.tenant_id])
    assert published() == []  # no session is free: the next one that gets free wakes the claim

    Resource.objects.update(available_at="2026-01-01T00:00:00Z", asked_until="2026-01-01T00:00:00Z")
    sessions.release([session])
    assert published() == [("jobs.assign", [pool])]


@pytest.mark.django_db(transaction=True)
def test_what_two_assigners_pass_by_wakes_the_claim_again(published: Any) -> None:
    """The first locks a batch of turns and needs one: the second finds none for the session that is free since."""
    job_type = factories.make_job_type(factories.make_pool(sessions=2, window=20))
    Resource.objects.filter(number=2).update(accepting=False)
    factories.submit_many(factories.make_tenant(), job_type, 2)
    published()
    with transaction.atomic():
        assert transitions.assign(job_type.pool_id) == 1
        freed = lambda: Resource.objects.filter(number=2).update(accepting=True)  # noqa: E731
        assert in_another_connection(freed).result(RACE_SECONDS) == 1
        in_another_connection(lambda: tasks.assign(job_type.pool_id)).result(RACE_SECONDS)
        assert published() == [("jobs.assign", [job_type.pool_id])]
    assert Job.objects.filter(state="assigned").count() == 1, "the second got nothing"
    published()
    tasks.assign(job_type.pool_id)
    assert Job.objects.filter(state="assigned").count() == 2
    assert ("jobs.assign", [job_type.pool_id]) not in published(), "nothing is left"


@pytest.mark.django_db(transaction=True)
def test_a_session_that_is_free_again_wakes_the_next_assign(published: Any) -> None:
    job = factories.at("assigned")
    published()
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    assert published() == [("jobs.assign", [job.pool_id]), ("jobs.finish", [[str(job.pk)]])]
    transitions.finish([job.pk])
    assert published() == []

    waiting = factories.at("assigned", job.type, job.tenant)
    published()
    transitions.cancel(waiting.pk)
    assert published() == [("jobs.assign", [job.pool_id])]


def test_every_job_of_a_set_is_found_in_flower() -> None:
    """Celery's events carry the arguments cut to 1,024 characters."""
    ids = {uuid4() for _ in range(205)}
    messages = list(_jobs([{"id": job_id} for job_id in ids]))
    assert {UUID(text) for (chunk,) in messages for text in chunk} == ids
    for message in messages:
        shown = saferepr(list(message), 1024)
        assert all(job_id in shown for job_id in message[0])
