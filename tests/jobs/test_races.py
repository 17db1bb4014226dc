"""Two connections at one job, without a sleep: the second waits at the lock or skips it; one wins, and money is right."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from credits import ledger
from jobs import admission, transitions
from jobs.models import Attempt, Job, JobType
from jobs.queries import claim
from jobs.replays import NotReplayable
from jobs.states import JOB
from pool import transitions as sessions
from pool.models import Resource
from tenants.models import Tenant
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.factories import HOLDER, MICRO

pytestmark = pytest.mark.django_db(transaction=True)


def second_waits(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """`first` has done its work but not committed when `second` comes and is blocked by it."""
    with transaction.atomic():
        won = first()
        other = in_another_connection(second)
        wait_until_blocked_by_us()
    return won, other.result(RACE_SECONDS)


def second_passes(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """`second` comes, finds the row locked, and goes on without it."""
    with transaction.atomic():
        won = first()
        skipped = in_another_connection(second).result(RACE_SECONDS)
    return won, skipped


def standing(job: Job) -> tuple[str, str, int, int]:
    """(state of the job, state of the one session, open attempts, credits held)"""
    job.refresh_from_db()
    open_attempts = Attempt.objects.filter(ended_at=None).count()
    return job.state, Resource.objects.get().state, open_attempts, factories.money(job.tenant)[1] // MICRO


def dispatch(job: Job) -> int:
    return len(transitions.dispatch([job.pk], HOLDER))


def test_a_cancel_that_comes_after_the_intent_only_asks() -> None:
    job = factories.at("assigned")
    assert second_waits(lambda: dispatch(job), lambda: transitions.cancel(job.pk)) == (1, False)
    assert standing(job) == ("processing", "busy", 1, 10)
    assert job.cancel_requested_at is not None


def test_a_dispatch_that_comes_after_a_cancel_sends_nothing() -> None:
    job = factories.at("assigned")
    assert second_waits(lambda: transitions.cancel(job.pk), lambda: dispatch(job)) == (True, 0)
    assert standing(job) == ("cancelled", "available", 0, 0)


def test_of_two_dispatches_one_sends() -> None:
    job = factories.at("assigned")
    assert second_waits(lambda: dispatch(job), lambda: dispatch(job)) == (1, 0)
    assert standing(job) == ("processing", "busy", 1, 10)
    assert factories.attempt_of(job).sendings == 1


def test_a_cancel_that_waits_for_an_assign_gives_the_session_back() -> None:
    job = factories.at("pending")
    assert second_waits(lambda: transitions.assign(job.pool_id), lambda: transitions.cancel(job.pk)) == (1, True)
    assert standing(job) == ("cancelled", "available", 0, 0)


def test_an_assign_passes_a_job_that_is_being_cancelled() -> None:
    job = factories.at("pending")
    assert second_passes(lambda: transitions.cancel(job.pk), lambda: transitions.assign(job.pool_id)) == (True, 0)
    assert standing(job) == ("cancelled", "available", 0, 0)


def test_a_dispatch_that_comes_after_an_unassign_sends_nothing() -> None:
    job = factories.at("assigned")
    db.let_time_pass(16)
    assert second_waits(lambda: transitions.unassign([job.pk]), lambda: dispatch(job)) == (1, 0)
    assert standing(job) == ("pending", "available", 0, 10)


def test_an_unassign_that_comes_after_the_intent_takes_nothing_back() -> None:
    job = factories.at("assigned")
    db.let_time_pass(16)
    assert second_waits(lambda: dispatch(job), lambda: transitions.unassign([job.pk])) == (1, 0)
    assert standing(job) == ("processing", "busy", 1, 10)


def test_an_expire_that_comes_after_an_assign_ends_nothing() -> None:
    job = factories.at("pending", start_deadline_ms=1_000)
    db.let_time_pass(2)
    assert second_waits(lambda: transitions.assign(job.pool_id), lambda: transitions.expire([job.pk])) == (1, 0)
    assert standing(job) == ("assigned", "reserved", 1, 10)


def test_an_assign_passes_a_job_that_is_expiring() -> None:
    job = factories.at("pending", start_deadline_ms=1_000)
    db.let_time_pass(2)
    assert second_passes(lambda: transitions.expire([job.pk]), lambda: transitions.assign(job.pool_id)) == (1, 0)
    assert standing(job) == ("failed", "available", 0, 0)


def test_of_two_finishes_one_charges() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    assert second_waits(lambda: transitions.finish([job.pk]), lambda: transitions.finish([job.pk])) == (1, 0)
    assert standing(job) == ("completed", "available", 0, 0)
    assert factories.money(job.tenant)[0] == 997 * MICRO


def test_of_two_assigners_one_gets_the_session() -> None:
    job_type = factories.make_job_type(factories.make_pool(window=20))
    # One more than a batch, so that the second finds a turn which the first has not locked.
    *_, last = jobs = factories.submit_many(factories.make_tenant(), job_type, claim.BATCH + 1)
    assign = lambda: transitions.assign(job_type.pool_id)  # noqa: E731
    assert second_passes(assign, assign) == (1, 0)
    assert standing(jobs[0]) == ("assigned", "reserved", 1, claim.BATCH + 1)
    last.refresh_from_db()
    assert (last.state, last.turn is not None) == ("pending", True)


def test_a_finish_that_waits_for_a_cancel_knows_that_it_was_asked_for() -> None:
    job = factories.at("assigned")
    factories.learn(factories.dispatch(job), factories.FAILURE)
    assert second_waits(lambda: transitions.cancel(job.pk), lambda: transitions.finish([job.pk])) == (False, 1)
    assert standing(job) == ("cancelled", "available", 0, 0)


def waiting_without_a_turn(tenant: Tenant, job_type: JobType, count: int) -> None:
    """Their time has come, and nobody has promoted them yet."""
    for _ in range(count):
        factories.submit(tenant, job_type, run_at=timezone.now() + timedelta(hours=1))
    db.let_time_pass(3_601)
    transitions.come_due(list(Job.objects.values_list("pk", flat=True)))


def turns(tenant: Tenant) -> int:
    return Job.objects.filter(tenant=tenant, turn__isnull=False).exclude(state__in=JOB.terminal).count()


def test_a_promotion_counts_what_the_one_before_it_gave() -> None:
    tenant, job_type = factories.make_tenant(max_running=3), factories.make_job_type()
    waiting_without_a_turn(tenant, job_type, 8)
    promote = lambda: transitions.promote(job_type.pool_id, [tenant.pk])  # noqa: E731
    assert second_waits(promote, promote) == (3, 0)
    assert turns(tenant) == 3


def test_a_promotion_passes_a_job_that_is_being_cancelled() -> None:
    tenant, job_type = factories.make_tenant(max_running=1), factories.make_job_type()
    waiting_without_a_turn(tenant, job_type, 2)
    first, second = Job.objects.order_by("arrival")
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=first.pk)
        promoting = in_another_connection(lambda: transitions.promote(job_type.pool_id, [tenant.pk]))
        assert promoting.result(RACE_SECONDS) == 1
    second.refresh_from_db()
    assert second.turn is not None


def test_what_two_ends_make_room_for_is_counted_once() -> None:
    tenant = factories.make_tenant(credits=0, billing="none", max_running=3)
    job_type = factories.make_job_type(factories.make_pool(sessions=3))
    running = [factories.submit(tenant, job_type).pk for _ in range(2)]
    transitions.assign(job_type.pool_id)
    for job in Job.objects.filter(pk__in=running):
        factories.learn(factories.dispatch(job), factories.SUCCESS)
    waiting_without_a_turn(tenant, job_type, 8)
    first, second = ((lambda pk=pk: transitions.finish([pk])) for pk in running)
    assert second_waits(first, second) == (1, 1)
    assert turns(tenant) == 3


def test_two_submits_with_one_key_are_one_job() -> None:
    tenant, job_type = factories.make_tenant(), factories.make_job_type()
    request = admission.Request(type=job_type.name, payload={})
    submit = lambda: admission.submit(tenant, request, "the-one-key-of-both", b"x" * 32)  # noqa: E731
    (job, replayed), (same, again) = second_waits(submit, submit)
    assert (replayed, again) == (False, True)
    assert same.pk == job.pk
    assert factories.money(tenant) == (1_000 * MICRO, 10 * MICRO)


def test_a_finish_locks_wallets_in_their_order_whatever_the_ends_are() -> None:
    """It would otherwise hold a later wallet while it waits for an earlier one, as another does the other way round."""
    job_type = factories.make_job_type(factories.make_pool(sessions=2))
    earlier, later = factories.make_tenant(), factories.make_tenant()
    failing, completing = factories.submit(earlier, job_type), factories.submit(later, job_type)
    transitions.assign(job_type.pool_id)
    factories.learn(factories.dispatch(failing), factories.REJECTED)
    factories.learn(factories.dispatch(completing), factories.SUCCESS)
    with transaction.atomic():
        ledger.lock_wallets([earlier.pk])
        other = in_another_connection(lambda: transitions.finish([failing.pk, completing.pk]))
        wait_until_blocked_by_us()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '100ms'")
        ledger.lock_wallets([later.pk])
    assert other.result(RACE_SECONDS) == 2


def test_of_two_replays_one_begins_a_run() -> None:
    job = factories.at("failed")

    def replay() -> bool:
        try:
            transitions.replay(job.pk)
        except NotReplayable:
            return False
        return True

    assert second_waits(replay, replay) == (True, False)
    assert standing(job) == ("pending", "available", 0, 10)
    assert job.run == 2


def test_a_session_that_is_taken_while_it_is_disabled_runs_its_job_first() -> None:
    job = factories.at("pending")
    session = Resource.objects.get().pk
    assert second_waits(lambda: transitions.assign(job.pool_id), lambda: sessions.disable([session], "banned")) == (
        1,
        1,
    )
    assert standing(job) == ("assigned", "reserved", 1, 10)
    transitions.cancel(job.pk)
    assert standing(job)[1] == "offline"


def test_an_assign_passes_a_session_that_is_being_drained() -> None:
    job = factories.at("pending")
    session = Resource.objects.get().pk
    assert second_passes(lambda: sessions.drain([session], "planned"), lambda: transitions.assign(job.pool_id)) == (
        1,
        0,
    )
    assert standing(job) == ("pending", "available", 0, 10)
