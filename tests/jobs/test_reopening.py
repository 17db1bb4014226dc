"""A pool that was closed by a restore opens: by its time, by an operator's word; what nobody can tell of fails."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import asking, reopening, sweep, transitions
from jobs.models import Attempt, Job, Suspicion
from jobs.queries import missed, suspicions
from jobs.queries import restoring as queries
from pool.models import Pool, Resource
from pool.queries import quarantine
from tests import factories
from tests.db import RACE_SECONDS, in_another_connection, let_time_pass, value, wait_until_blocked_by_us
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_restoring import decided, over, restored
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db


def test_nobody_can_tell_of_a_waiting_job_so_it_fails_and_costs_nothing() -> None:
    job = factories.at("pending")
    restored()
    assert over(job.pool)
    job.refresh_from_db()
    assert (job.state, job.error["code"], decided(job)) == ("failed", "outcome_unknown", "nobody_knows")
    assert factories.money(job.tenant)[1] == 0
    assert (
        value("SELECT cause FROM jobs_jobmove WHERE subject_id = %s ORDER BY id DESC LIMIT 1", [job.pk]) == "restored"
    )


def test_a_waiting_job_that_may_run_twice_runs() -> None:
    job = factories.at("pending", factories.make_job_type(delivery="at_least_once"))
    restored()
    assert over(job.pool)
    assert decided(job) == "may_repeat"
    assert transitions.assign(job.pool_id) == 1


@pytest.mark.parametrize(("accounts", "word"), [(1, "same_key"), (2, "nobody_knows")])
def test_the_only_account_of_a_pool_knows_the_key_again(accounts: int, word: str) -> None:
    job = factories.at("pending", factories.make_job_type(factories.make_pool(accounts=accounts), idempotent=True))
    restored()
    assert over(job.pool)
    assert decided(job) == word
    assert transitions.assign(job.pool_id) == int(word == "same_key")


def resent(**fields: Any) -> Job:
    """A job that waits in an open pool to be sent under the key it had, which lost commits may have sent."""
    job = factories.at("pending", factories.make_job_type(idempotent=True, **fields))
    restored()
    assert over(job.pool)
    assert decided(job) == "same_key"
    return job


@pytest.mark.parametrize("refusal", [factories.BUSY, factories.AWAY, factories.REJECTED, factories.NO_KEY])
def test_an_upstream_that_refuses_the_key_a_job_had_does_not_say_that_it_never_ran(refusal: Outcome) -> None:
    job = resent()
    transitions.assign(job.pool_id)
    flight = factories.dispatch(job)
    assert (flight.row["number"], flight.repeat) == (1, True), "so refusing it leaves it unknown"
    factories.learn(flight, replace(refusal, verdict="unknown", over=False))
    let_time_pass(10)
    (again,) = asking.verify([job.pk], HOLDER)
    assert (again.action, again.row["dispatch_key"], again.row["sendings"]) == ("submit", f"job.{job.pk}.a1", 3)


def test_the_key_a_job_had_is_not_given_up_when_its_worker_is_lost_before_it_is_sent() -> None:
    job = resent(retry={"attempts": 1})
    transitions.assign(job.pool_id)
    let_time_pass(60)
    assert transitions.unassign([job.pk]) == 0
    job.refresh_from_db()
    assert (job.state, attempt_of(job).verdict, session_of(job).state) == ("processing", "unknown", "busy")
    (again,) = asking.verify([job.pk], HOLDER)
    assert (again.action, again.row["dispatch_key"], again.repeat) == ("submit", f"job.{job.pk}.a1", True)
    factories.learn(again, factories.SUCCESS)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, Attempt.objects.count()) == ("completed", 1)


def test_a_job_that_is_sent_again_under_its_key_runs_on_as_any_other_after_that() -> None:
    job = resent()
    transitions.assign(job.pool_id)
    factories.learn(factories.dispatch(job), factories.AWAY)  # which its type declares to be proof
    transitions.finish([job.pk])
    let_time_pass(400)
    transitions.come_due([job.pk])
    transitions.promote(job.pool_id, [job.tenant_id])
    assert transitions.assign(job.pool_id) == 1
    let_time_pass(60)
    assert transitions.unassign([job.pk]) == 1, "the second key was never sent"


def test_a_job_does_not_expire_before_the_key_it_had_was_sent_again() -> None:
    job = factories.at("pending", factories.make_job_type(idempotent=True))
    Job.objects.update(start_deadline=timezone.now() + timedelta(seconds=5))
    restored()
    assert over(job.pool)
    let_time_pass(10)
    assert missed.jobs_to_expire() == []
    assert transitions.expire([job.pk]) == 0
    assert transitions.assign(job.pool_id) == 1


def test_a_job_that_waits_to_be_sent_again_can_be_cancelled() -> None:
    job = resent()
    transitions.assign(job.pool_id)
    assert transitions.cancel(job.pk)
    job.refresh_from_db()
    assert (job.state, session_of_pool(job).state) == ("cancelled", "available")


def session_of_pool(job: Job) -> Resource:
    return Resource.objects.get(pool_id=job.pool_id)


def test_an_operator_who_opens_a_pool_has_the_key_sent_again_as_a_repeat() -> None:
    job = factories.at("pending", factories.make_job_type(idempotent=True))
    restored()
    assert reopening.open_by_operator(job.pool, "they showed me", repeat=False)
    assert decided(job) == "same_key"
    transitions.assign(job.pool_id)
    assert factories.dispatch(job).repeat


def test_a_pool_stays_closed_while_a_call_of_before_is_found_out() -> None:
    job = factories.at("processing")
    restored()
    assert not over(job.pool)
    assert [row["undecided"] for row in queries.quarantined()] == [1]
    let_time_pass(76)
    asking.verify([job.pk], HOLDER)
    transitions.finish([job.pk])
    assert reopening.reopen(job.pool_id)
    assert decided(job) == "ended"


def test_a_pool_does_not_stay_closed_for_ever() -> None:
    job = factories.at("processing")
    restored()
    Pool.objects.update(quarantined_until=timezone.now() - timedelta(seconds=reopening.PATIENCE_SECONDS))
    assert reopening.reopen(job.pool_id)
    job.refresh_from_db()
    assert (job.state, decided(job)) == ("processing", "under_way"), "it is found out as any other"


@pytest.mark.parametrize(
    ("repeat", "state", "word"), [(True, "pending", "operator"), (False, "failed", "nobody_knows")]
)
def test_an_operator_who_knows_opens_a_pool(repeat: bool, state: str, word: str) -> None:
    job = factories.at("pending")
    restored()
    assert reopening.open_by_operator(job.pool, "they showed me", repeat=repeat)
    job.refresh_from_db()
    assert (job.state, decided(job)) == (state, word)
    assert not reopening.open_by_operator(job.pool, "again", repeat=repeat)


def test_a_sweep_gives_up_one_batch_and_an_operator_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspicions, "_UNDECIDED", suspicions._UNDECIDED.replace(f"LIMIT {suspicions.MOST}", "LIMIT 2"))
    pool = factories.make_job_type().pool
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, pool.job_types.get()) for _ in range(5)]
    restored()
    assert not over(pool)
    assert Job.objects.filter(state="failed").count() == 2
    assert reopening.reopen(pool.pk, force=True)
    assert {decided(job) for job in jobs} == {"nobody_knows"}


@pytest.mark.django_db(transaction=True)
def test_whoever_sees_the_word_of_an_operator_sees_what_it_says_of_the_jobs() -> None:
    job = factories.at("pending")
    restored()
    with transaction.atomic():
        suspicions.still_waiting(suspicions.undecided(job.pool_id))  # locks it, so that the operator is in the middle
        opening = in_another_connection(lambda: reopening.open_by_operator(job.pool, "they did not run", repeat=True))
        wait_until_blocked_by_us()
        assert quarantine.over() == []
        sweep.sweep()
    assert opening.result(RACE_SECONDS)
    job.refresh_from_db()
    assert (job.state, decided(job)) == ("pending", "operator")


@pytest.mark.django_db(transaction=True)
def test_a_sweep_that_comes_first_asks_again_when_it_has_the_jobs() -> None:
    job = factories.at("pending")
    restored()
    Pool.objects.update(quarantined_until=timezone.now())
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        reopened = in_another_connection(lambda: reopening.reopen(job.pool_id))
        wait_until_blocked_by_us()
        suspicions.decide_all(Suspicion.Decided.OPERATOR, job.pool_id)
    assert reopened.result(RACE_SECONDS)
    job.refresh_from_db()
    assert (job.state, decided(job)) == ("pending", "operator")


@pytest.mark.django_db(transaction=True)
def test_one_that_is_cancelled_while_its_pool_opens_has_ended_and_did_not_fail() -> None:
    job = factories.at("pending")
    restored()
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        opening = in_another_connection(lambda: reopening.open_by_operator(job.pool, "it is over", repeat=False))
        wait_until_blocked_by_us()
        assert transitions.cancel(job.pk)
    opened = opening.result(RACE_SECONDS)
    job.refresh_from_db()
    assert (job.state, decided(job), opened.failed if opened else None) == ("cancelled", "ended", 0)
