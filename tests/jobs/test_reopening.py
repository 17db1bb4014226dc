"""A pool that was closed by a restore opens: by its time, by an operator's word; what nobody can tell of fails."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import asking, reopening, sweep, transitions
from jobs.models import Job, Suspicion
from jobs.queries import restoring as queries
from jobs.queries import suspicions
from pool.models import Pool
from pool.queries import quarantine
from tests import factories
from tests.db import RACE_SECONDS, in_another_connection, let_time_pass, value, wait_until_blocked_by_us
from tests.factories import HOLDER
from tests.jobs.test_restoring import decided, over, restored

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
        suspicions.still_waiting([job.pk])  # locks it, so that the operator is in the middle
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
