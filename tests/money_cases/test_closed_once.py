"""However often and by however many an end is accounted for, its hold is closed once."""

import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from credits import ledger
from credits.models import Hold, Transfer
from jobs import sweep, transitions
from jobs.findings import Finding
from jobs.models import Attempt, Job
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection, until_waiting, value
from tests.factories import HOLDER, MICRO
from upstream.calls import Outcome
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)
T = TypeVar("T")
CALLERS = 20
# All connections but the one that blocks them: so many of the callers wait at the same moment.
AT_ONCE = settings.DATABASE_POOL_SIZE - 1


def all_at_once(verbs: list[Callable[[], T]]) -> list[Future[T]]:
    """Starts each on a connection of its own, none before all are there; they are done."""
    barrier = threading.Barrier(len(verbs))

    def started(verb: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            barrier.wait(RACE_SECONDS)
            return verb()

        return run

    futures = [in_another_connection(started(verb)) for verb in verbs]
    for future in futures:
        future.exception(RACE_SECONDS)
    return futures


def ended(jobs: int, outcome: Outcome) -> list[Job]:
    """As many jobs of two tenants, whose attempts have all ended in this way, and nothing was made of it yet."""
    job_type = factories.make_job_type(factories.make_pool(sessions=jobs, window=jobs), delivery="at_most_once")
    for tenant in (factories.make_tenant(), factories.make_tenant()):
        factories.submit_many(tenant, job_type, jobs // 2)
    while transitions.assign(job_type.pool_id):
        pass
    found = list(Job.objects.select_related("tenant").filter(type=job_type, state="assigned").order_by("id"))
    assert len(found) == jobs
    transitions.learn([Finding(f, outcome) for f in transitions.dispatch([job.pk for job in found], HOLDER)])
    db.let_time_pass(5)  # long enough for the sweep to look as well
    return found


@pytest.mark.parametrize(
    ("outcome", "state", "charged"),
    [(factories.FAILURE, "failed", 0), (factories.REJECTED, "failed", 0), (factories.SUCCESS, "completed", MICRO)],
    ids=["failed", "rejected", "succeeded"],
)
def test_jobs_that_end_at_once_are_closed_once_by_whoever_comes(
    outcome: Outcome, state: str, charged: int, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = ended(60, outcome)
    dice = random.Random(7)

    def finish_all() -> int:
        ids = [job.pk for job in jobs]
        dice.shuffle(ids)
        return sum(transitions.finish(ids[start : start + 20]) for start in range(0, len(ids), 20))

    by_hand: list[Callable[[], int]] = [finish_all] * 6
    for future in all_at_once([*by_hand, sweep.sweep, sweep.sweep]):
        future.result()
    assert set(Job.objects.values_list("state", "charged")) == {(state, charged)}
    assert list(Hold.objects.exclude(status="captured" if charged else "released")) == []
    assert Hold.objects.count() == Event.objects.count() == len(jobs)
    assert Transfer.objects.filter(code="settle").count() == (len(jobs) if charged else 0)
    for tenant in {job.tenant for job in jobs}:
        assert factories.money(tenant) == (1_000 * MICRO - 30 * charged, 0)
    # Nobody failed on the way, e.g. by a deadlock: it would only be tried again.
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def closed_by(caller: Future[int]) -> int:
    """How many it closed; one that was killed closed none."""
    try:
        return caller.result(RACE_SECONDS)
    except (OperationalError, InterfaceError):
        return 0


def test_an_end_is_accounted_for_once_though_some_who_do_it_are_killed() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    with transaction.atomic():
        transitions.endings.lock([job.pk])
        callers = [in_another_connection(lambda: transitions.finish([job.pk])) for _ in range(CALLERS)]
        waiting = until_waiting(AT_ONCE)
        for pid in waiting[::2]:
            assert value("SELECT pg_terminate_backend(%s)", [pid])
    assert sum(closed_by(caller) for caller in callers) == 1
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3 * MICRO)
    assert Transfer.objects.filter(code="settle").count() == Event.objects.count() == 1
    assert Attempt.objects.get().finished_at is not None
    assert factories.money(job.tenant) == (997 * MICRO, 0)


def test_when_the_one_at_work_is_killed_one_of_those_behind_it_charges() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    with transaction.atomic():
        ledger.lock_wallets([job.tenant_id])
        callers = [in_another_connection(lambda: transitions.finish([job.pk]))]
        (at_work,) = until_waiting(1)  # it has the job, and comes to the money
        callers += [in_another_connection(lambda: transitions.finish([job.pk])) for _ in range(AT_ONCE - 1)]
        until_waiting(AT_ONCE)
        assert value("SELECT pg_terminate_backend(%s)", [at_work])
    assert closed_by(callers[0]) == 0
    assert sum(closed_by(caller) for caller in callers) == 1
    assert factories.money(job.tenant) == (997 * MICRO, 0)


def test_a_refund_with_one_key_from_eight_connections_is_booked_once() -> None:
    job = factories.at("completed")
    booked = all_at_once([lambda: ledger.refund(job.pk, job.run, 2 * MICRO, "complaint-1")] * 8)
    assert sorted(future.result() for future in booked) == [False] * 7 + [True]
    assert Transfer.objects.filter(code="refund").count() == 1
    assert factories.money(job.tenant) == (999 * MICRO, 0)


def test_a_cancel_from_eight_connections_gives_back_once() -> None:
    job = factories.at("pending")
    with transaction.atomic():
        ledger.lock_wallets([job.tenant_id])
        cancels = [in_another_connection(lambda: transitions.cancel(job.pk)) for _ in range(8)]
        until_waiting(8)
    assert sorted(cancel.result(RACE_SECONDS) for cancel in cancels) == [False] * 7 + [True]
    assert factories.money(job.tenant) == (1_000 * MICRO, 0)
    assert Event.objects.filter(job_id=job.pk).count() == 1
