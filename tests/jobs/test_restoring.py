"""A database that went back: what was open is doubted, what waited is suspected, pools stay closed until that is over."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from credits.models import Hold
from jobs import asking, reopening, restoring, sweep, transitions
from jobs.flight import Flight
from jobs.models import Attempt, Evidence, Job, JobType, LateCompletion, Suspicion
from jobs.queries import claim, occupancy
from jobs.queries import restoring as queries
from pool.models import Pool, Resource, ResourceMove, Restoration
from pool.queries import quarantine
from tests import factories
from tests.db import execute, let_time_pass, value
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.keys_world import FIND
from tests.jobs.test_asking import DONE, accepted

pytestmark = pytest.mark.django_db


def restored(**terms: Any) -> restoring.Closed:
    return restoring.restored(note="test", **terms)


def decided(job: Job) -> str:
    return Suspicion.objects.get(job=job).decided


def over(pool: Pool) -> bool:
    """The quarantine's time has passed."""
    Pool.objects.filter(pk=pool.pk).update(quarantined_until=timezone.now())
    return reopening.reopen(pool.pk)


def test_a_closed_pool_takes_jobs_and_gives_no_session() -> None:
    job_type = factories.make_job_type()
    closed = restored()
    assert [row["name"] for row in closed.pools] == [job_type.pool.name]
    job = factories.submit(factories.make_tenant(), job_type)
    assert transitions.assign(job.pool_id) == 0
    sweep.sweep()
    job.refresh_from_db()
    assert (job.state, Attempt.objects.count()) == ("pending", 0)
    assert over(job_type.pool)
    assert transitions.assign(job.pool_id) == 1


def test_a_closed_pool_whose_accounts_pay_gives_no_session_either() -> None:
    job = factories.at("pending", factories.make_job_type(factories.make_tracked_pool(100)))
    restored(nothing_lost=False)
    assert transitions.assign(job.pool_id) == 0
    sweep.sweep()
    assert not Attempt.objects.exists()


def test_a_session_that_is_made_in_a_closed_pool_is_given_to_nobody() -> None:
    job = factories.at("pending")
    restored()
    pool = Pool.objects.get()
    Resource.objects.create(pool=pool, account=pool.accounts.get(), number=2, accepting=False)
    Resource.objects.filter(number=2).update(accepting=True)
    pool.accounts.update(sessions=2)
    assert transitions.assign(job.pool_id) == 0


def test_the_longest_type_of_a_pool_says_how_long_it_stays_closed() -> None:
    pool, other = factories.make_pool(), factories.make_pool()
    for runtime_ms in (60_000, 600_000):
        factories.make_job_type(pool, max_runtime_ms=runtime_ms)
    before = timezone.now()
    restored()
    pool.refresh_from_db()
    assert pool.quarantined_until is not None
    assert timedelta(seconds=614) < pool.quarantined_until - before < timedelta(seconds=660)
    assert reopening.reopen(other.pk), "nothing is ever sent from a pool without types"
    assert not reopening.reopen(pool.pk)


def test_who_knows_since_when_nothing_was_sent_waits_less() -> None:
    pool = factories.make_job_type(max_runtime_ms=60_000).pool
    restored(quiet_since=timezone.now() - timedelta(seconds=61))
    sweep.sweep()
    pool.refresh_from_db()
    assert (pool.quarantined_at, pool.quarantined_until, pool.quarantine_note) == (None, None, "")


def test_where_nothing_was_lost_pools_stay_open_and_what_was_open_is_found_out() -> None:
    waiting, calling, intended = (factories.at(state) for state in ("pending", "processing", "assigned"))
    closed = restored(nothing_lost=True)
    assert (closed.doubted, closed.suspected, Restoration.objects.count()) == (1, 0, 0)
    (flight,) = transitions.dispatch([intended.pk], HOLDER)
    assert (flight.fence, attempt_of(intended).verdict) == (session_of(intended).fence, ""), "nobody can have sent it"
    assert not queries.quarantined()
    assert not Suspicion.objects.exists()
    assert attempt_of(calling).verdict == "unknown"
    assert transitions.assign(waiting.pool_id) == 1


def test_a_call_under_way_is_doubted_and_its_late_worker_writes_nothing() -> None:
    job = factories.at("assigned")
    zombie = factories.dispatch(job)
    restored()
    attempt = attempt_of(job)
    assert (attempt.verdict, attempt.error_code, attempt.lease_until) == ("unknown", "restored", None)
    factories.learn(zombie, factories.SUCCESS)
    job.refresh_from_db()
    assert (job.state, attempt_of(job).phase, session_of(job).state) == ("processing", "calling", "busy")
    assert Evidence.objects.filter(kind="answer", fence=zombie.fence).exists(), "what it learned is kept"
    assert LateCompletion.objects.get().job_id == job.pk


def test_an_attempt_that_was_not_sent_yet_is_taken_for_sent() -> None:
    job = factories.at("assigned")
    restored()
    job.refresh_from_db()
    attempt = attempt_of(job)
    assert (job.state, attempt.phase, attempt.verdict) == ("processing", "calling", "unknown")
    assert transitions.dispatch([job.pk], HOLDER) == [], "a worker of before sends nothing"
    assert transitions.unassign([job.pk]) == 0
    let_time_pass(76)
    asking.verify([job.pk], HOLDER)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "outcome_unknown")


def test_fences_and_numbers_go_on_beyond_all_that_were_lost() -> None:
    job, other = factories.at("processing"), factories.at("pending")
    before = {resource.pk: resource.fence for resource in Resource.objects.all()}
    newest, version = attempt_of(job).pk, other.version
    restored()
    for resource in Resource.objects.all():
        assert resource.fence > before[resource.pk] + queries.JUMP
    assert attempt_of(job).fence == session_of(job).fence
    other.refresh_from_db()
    assert other.version >= version + queries.VERSIONS
    assert over(other.pool) is True
    assert value("SELECT nextval(pg_get_serial_sequence('jobs_attempt', 'id'))") > newest + queries.JUMP
    assert value("SELECT nextval('jobs_arrival')") > queries.JUMP


def dispatched_and_lost(job: Job) -> Flight:
    """What its worker has of a commit that the database knows nothing of any more."""
    with transaction.atomic():
        transitions.assign(job.pool_id)
        flight = factories.dispatch(job)
        transaction.set_rollback(True)
    return flight


def learned_and_committed(flight: Flight) -> None:
    with transaction.atomic():
        factories.learn(flight, factories.SUCCESS)
        execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_worker_whose_attempt_was_lost_meets_no_attempt_of_its_number() -> None:
    job = factories.at("pending", factories.make_job_type(delivery="at_least_once"))
    last = value("SELECT last_value FROM jobs_attempt_id_seq")
    zombie = dispatched_and_lost(job)
    execute("SELECT setval('jobs_attempt_id_seq', %s)", [last])
    restored()
    assert over(job.pool)
    assert transitions.assign(job.pool_id) == 1
    flight = factories.dispatch(job)
    assert (flight.row["dispatch_key"], flight.attempt_id > zombie.attempt_id) == (zombie.row["dispatch_key"], True)
    assert flight.fence > zombie.fence
    learned_and_committed(zombie)
    assert (attempt_of(job).phase, Evidence.objects.count(), LateCompletion.objects.count()) == ("calling", 0, 0)


def test_accepted_work_is_asked_for_at_once_and_ends_as_ever() -> None:
    job = accepted()
    closed = restored()
    assert (closed.doubted, closed.accepted) == (0, 1)
    (flight,) = asking.verify([job.pk], HOLDER)
    assert flight.action == "poll"
    factories.learn(flight, DONE)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged, Hold.objects.get(job_id=job.pk, attempt=0).status) == (
        "completed",
        3_000_000,
        "captured",
    )


def test_a_job_whose_time_had_not_come_was_not_sent() -> None:
    job_type = factories.make_job_type()
    job = factories.submit(factories.make_tenant(), job_type, run_at=timezone.now() + timedelta(hours=1))
    backing_off = factories.at("backing_off", factories.make_job_type(retry={"first_ms": 3_600_000}))
    Job.objects.filter(pk=backing_off.pk).update(due_at=timezone.now() + timedelta(minutes=2))
    restored()
    assert not Suspicion.objects.exists()
    assert over(job.pool)
    job.refresh_from_db()
    assert job.state == "pending"


def test_a_job_whose_time_may_have_come_by_a_clock_that_was_ahead_is_suspected() -> None:
    job = factories.at("backing_off", factories.make_job_type(retry={"first_ms": 3_600_000}))
    Job.objects.update(due_at=timezone.now() + timedelta(seconds=50))
    restored()
    assert decided(job) == ""


def test_a_job_whose_type_moved_on_keeps_the_pool_it_waits_in_closed() -> None:
    left = factories.make_job_type(max_runtime_ms=60_000).pool
    moved = factories.at("pending", factories.make_job_type(left, max_runtime_ms=600_000)).type
    moved.pool = factories.make_pool()
    moved.save(update_fields=["pool"])
    before = timezone.now()
    restored()
    left.refresh_from_db()
    assert left.quarantined_until is not None
    assert timedelta(seconds=614) < left.quarantined_until - before < timedelta(seconds=660)


@pytest.mark.parametrize("nothing_lost", [True, False])
@pytest.mark.parametrize("state", ["processing", "assigned"])
def test_what_a_worker_of_before_may_still_send_is_asked_for_after_its_lease(state: str, nothing_lost: bool) -> None:
    job = factories.at(state, finding())
    restored(nothing_lost=nothing_lost)
    if state == "assigned" and nothing_lost:
        assert attempt_of(job).phase == "intended", "it is sent as any other"
        return
    let_time_pass(10)
    assert asking.verify([job.pk], HOLDER) == []
    let_time_pass(10)
    (flight,) = asking.verify([job.pk], HOLDER)
    assert (flight.action, flight.row["age_ms"] > 15_000 + flight.ways.find_after_ms) == ("find", True)


def test_where_nothing_was_sent_any_more_upstreams_are_asked_at_once() -> None:
    job = factories.at("processing", finding())
    restored(quiet_since=timezone.now() - timedelta(seconds=1))
    (flight,) = asking.verify([job.pk], HOLDER)
    assert flight.action == "find"


def finding() -> JobType:
    """A type whose upstream can be asked for keys."""
    return factories.make_job_type(upstream={"mode": "poll", "submit": {"path": "'/tasks'"}, "find": FIND})


def test_a_closed_pool_has_no_free_session() -> None:
    pool = factories.make_job_type().pool
    assert occupancy.filling()[0]["free_sessions"] == 1
    restored()
    pool.accounts.update(sessions=2)
    Resource.objects.create(pool=pool, account=pool.accounts.get(), number=2)
    (row,) = occupancy.filling()
    assert (row["free_sessions"], row["sessions"]) == (0, {"available": 2})


def test_sessions_of_a_closed_pool_wake_no_claim() -> None:
    pool = factories.make_job_type().pool
    restored()
    assert claim.with_free_sessions([pool.pk]) == []
    assert over(pool)
    assert claim.with_free_sessions([pool.pk]) == [pool.pk]


def test_several_restores_are_told_as_one_time_that_may_have_lost_commits() -> None:
    lost_since = timezone.now() - timedelta(hours=1)
    restored(went_back_to=lost_since)
    restored()
    assert [row["went_back_to"] for row in quarantine.lately()] == [lost_since]
    assert quarantine.lately()[0]["at"] == Restoration.objects.latest("at").at


def test_a_second_restore_suspects_again() -> None:
    job = factories.at("pending", factories.make_job_type(delivery="at_least_once"))
    restored()
    assert over(job.pool)
    restored(went_back_to=timezone.now())
    assert decided(job) == ""
    assert Restoration.objects.count() == 2


def test_a_second_call_of_restored_closes_no_pool_earlier() -> None:
    pool = factories.make_job_type().pool
    restored()
    pool.refresh_from_db()
    first = pool.quarantined_until
    restored(quiet_since=timezone.now() - timedelta(hours=1))
    pool.refresh_from_db()
    assert pool.quarantined_until == first
    assert not ResourceMove.objects.exclude(from_state="").exists()
