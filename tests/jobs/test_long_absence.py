"""After all who worked were away for long: nothing runs without a lease, whoever looks, and late answers do not count twice."""

from dataclasses import replace

import pytest

from jobs import asking, late, sweep, transitions
from jobs.models import Attempt, Job
from pool.models import Pool
from tests import db, factories
from tests.factories import HOLDER, MICRO, SUCCESS

pytestmark = pytest.mark.django_db(transaction=True)
AWAY_SECONDS = 600  # far above a lease, and below max_runtime
RUNTIME_MS = 3_600_000
WITHOUT_A_LEASE = "ended_at IS NULL AND lease_until <= clock_timestamp()"


def lapsed() -> int:
    return int(db.value(f"SELECT count(*) FROM jobs_attempt WHERE {WITHOUT_A_LEASE}"))


def test_two_sweeps_after_everybody_was_away_nothing_runs_without_a_lease() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, window=20), max_runtime_ms=RUNTIME_MS)
    factories.submit_many(factories.make_tenant(), job_type, 15)
    while transitions.assign(job_type.pool_id):
        pass
    sent = list(Job.objects.filter(state="assigned").order_by("pk").values_list("pk", flat=True)[:5])
    transitions.dispatch(sent, HOLDER)
    db.let_time_pass(AWAY_SECONDS)
    assert lapsed() == 10
    for _ in range(2):
        sweep.sweep()
    assert lapsed() == 0
    assert set(Attempt.objects.filter(job__in=sent).values_list("verdict", "lease_until")) == {("unknown", None)}
    assert Job.objects.filter(state="assigned").count() == 5, "what was never sent is given again"


def test_a_process_that_lacks_the_adapter_of_a_job_takes_it_back_and_judges_it_not() -> None:
    """The sweep may run anywhere: it goes by rows, not by what is installed beside it."""
    job_type = factories.make_job_type(factories.make_pool(sessions=2), max_runtime_ms=RUNTIME_MS)
    Pool.objects.update(upstream={"adapter": "installed elsewhere"})
    tenant = factories.make_tenant()
    unsent, sent = factories.submit(tenant, job_type), factories.submit(tenant, job_type)
    transitions.assign(job_type.pool_id)
    factories.dispatch(sent)
    db.let_time_pass(AWAY_SECONDS)
    sweep.sweep()
    unsent.refresh_from_db()
    sent.refresh_from_db()
    assert (unsent.state, unsent.attempts, unsent.tries) == ("assigned", 2, 0)
    assert (sent.state, factories.attempt_of(sent).verdict) == ("processing", "unknown")


def test_a_worker_that_comes_back_under_the_same_name_has_none_of_the_old_leases() -> None:
    """A container may have the same host and process number again: the lease is the attempt's, and has a fence."""
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    old = factories.dispatch(job)
    db.let_time_pass(AWAY_SECONDS)
    assert transitions.dispatch([job.pk], HOLDER) == []
    assert transitions.doubt([job.pk]) == 1
    (new,) = asking.verify([job.pk], HOLDER)
    assert (new.attempt_id, new.row["dispatch_key"]) == (old.attempt_id, old.row["dispatch_key"])
    assert new.fence > old.fence


def test_of_two_different_results_the_one_of_the_lease_is_shown_and_charged() -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True))
    old = factories.dispatch(job)
    db.let_time_pass(AWAY_SECONDS)
    transitions.doubt([job.pk])
    (new,) = asking.verify([job.pk], "another worker")
    factories.learn(old, replace(SUCCESS, result={"url": "of the old"}, units=9.0))
    factories.learn(new, replace(SUCCESS, result={"url": "of the new"}, units=4.0))
    transitions.finish([job.pk])
    late.book([job.pk])
    job.refresh_from_db()
    assert (job.state, job.result, job.charged) == ("completed", {"url": "of the new"}, 4 * MICRO)
    assert factories.money(job.tenant) == (996 * MICRO, 0)


def test_what_waits_while_nothing_can_run_counts_against_no_cap_of_what_runs() -> None:
    """All sessions rest; the tenant may have five jobs running. Fifty are accepted, and five of them stand in line."""
    pool = factories.make_pool(sessions=5, window=50)
    tenant, job_type = factories.make_tenant(max_running=5), factories.make_job_type(pool)
    pool.resources.update(accepting=False)
    for _ in range(50):
        assert factories.submit(tenant, job_type).state == "pending"
    assert transitions.assign(pool.pk) == 0
    assert Job.objects.filter(state="pending", turn__isnull=False).count() == 5
    pool.resources.update(accepting=True)
    assert transitions.assign(pool.pk) == 5
