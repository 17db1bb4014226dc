"""A pool that is closed since a restore sends nothing again before its time: the session may be a lost job's by now."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import asking, outlook, reopening, restoring, transitions
from jobs.models import Job
from jobs.queries import health
from jobs.queries.under_way import under_way
from pool.models import Pool
from tests import factories
from tests.db import let_time_pass
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_restoring import decided, restored

pytestmark = pytest.mark.django_db


def doubted(state: str = "processing", **fields: Any) -> Job:
    """A job that was under way when the database went back, and whose key its upstream deduplicates."""
    job = factories.at(state, factories.make_job_type(idempotent=True, **fields))
    restored()
    return job


def looked_at(job: Job) -> list[str]:
    """What it is called for when it is due."""
    let_time_pass(asking.CLOSED_MS / 1_000)
    return [flight.action for flight in asking.verify([job.pk], HOLDER)]


@pytest.mark.parametrize("state", ["processing", "assigned"])
def test_it_is_sent_again_when_the_time_of_its_pool_is_over_and_not_before(state: str) -> None:
    job = doubted(state)
    for _ in range(20):  # longer than max_runtime: others may run until then
        assert looked_at(job) == []
    attempt = attempt_of(job)
    assert (attempt.sendings, attempt.verdict, session_of(job).state) == (1, "unknown", "busy")
    Pool.objects.update(quarantined_until=timezone.now())
    assert not reopening.reopen(job.pool_id), "it waits for what is found out"
    assert looked_at(job) == ["submit"]
    attempt = attempt_of(job)
    assert attempt.called_at is not None
    assert timezone.now() - attempt.called_at < timedelta(seconds=5), "max_runtime counts from here"


def test_an_operator_who_opens_the_pool_lets_it_be_sent_at_once() -> None:
    job = doubted()
    assert looked_at(job) == []
    assert reopening.open_by_operator(job.pool, "their page shows no run", repeat=False)
    assert decided(job) == "under_way"
    assert looked_at(job) == ["submit"]


def test_what_is_cancelled_meanwhile_is_waited_out_in_the_closed_pool() -> None:
    job = doubted()
    assert looked_at(job) == []
    transitions.cancel(job.pk)
    let_time_pass(76)
    asking.verify([job.pk], HOLDER)
    assert attempt_of(job).ended_at is not None
    factories.submit(job.tenant, job.type)
    assert (session_of(job).state, transitions.assign(job.pool_id)) == ("available", 0)


def test_its_page_says_when_and_nobody_is_alarmed() -> None:
    job = doubted()
    assert looked_at(job) == []
    let_time_pass(300)
    Pool.objects.update(quarantined_until=timezone.now() + timedelta(hours=1))
    said = dict(outlook.in_full(under_way([job.pk])[job.pk]))
    assert said["Next"].startswith("Sent again when the time of its closed pool is over, at ")
    assert said["At the latest"].startswith("max_runtime after it is sent again")
    assert health.unknown_for_too_long(0)["number"] == 0


def test_where_nothing_was_lost_no_pool_is_closed_and_it_is_sent_again_in_its_turn() -> None:
    job = factories.at("processing", factories.make_job_type(idempotent=True))
    restoring.restored(note="test", nothing_lost=True)
    assert looked_at(job) == ["submit"]
