"""Whose turn: window and cap bound the line, fair pools share by weight, fifo pools go by arrival."""

from collections import Counter
from uuid import UUID

import pytest

from jobs import transitions
from jobs.models import Job, JobType
from tenants.models import Tenant
from tests import db, factories

pytestmark = pytest.mark.django_db


def assign_all(job_type: JobType) -> list[UUID]:
    """One assignment: the ids that got a session, in the order of their turns."""
    transitions.assign(job_type.pool_id)
    return list(Job.objects.filter(state="assigned").order_by("turn", "id").values_list("id", flat=True))


def promote_all(job_type: JobType, *tenants: Tenant) -> None:
    transitions.promote(job_type.pool_id, [tenant.pk for tenant in tenants])


def in_line(tenant: Tenant) -> int:
    return Job.objects.filter(tenant=tenant, state="pending", turn__isnull=False).count()


def test_the_window_bounds_the_jobs_of_a_tenant_in_line() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=4, window=3))
    tenant, other = factories.make_tenant(), factories.make_tenant()
    factories.submit_many(tenant, job_type, 20)
    factories.submit(other, job_type)
    assert (in_line(tenant), in_line(other)) == (3, 1)
    assert len(assign_all(job_type)) == 4
    assert in_line(tenant) == 0
    promote_all(job_type, tenant, other)
    assert (in_line(tenant), in_line(other)) == (3, 0)
    promote_all(job_type, tenant, other)
    assert in_line(tenant) == 3


def test_a_tenants_own_window_goes_before_the_pools() -> None:
    pool = factories.make_pool(window=3)
    tenant = factories.make_tenant(pools={pool.name: {"window": 5}})
    factories.submit_many(tenant, factories.make_job_type(pool), 9)
    assert in_line(tenant) == 5


def test_max_running_counts_those_in_line_and_those_that_run() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=9))
    tenant = factories.make_tenant(max_running=4)
    factories.submit_many(tenant, job_type, 9)
    assert in_line(tenant) == 4
    running = assign_all(job_type)
    promote_all(job_type, tenant)
    assert (len(running), in_line(tenant)) == (4, 0)
    transitions.cancel(running[0])
    assert in_line(tenant) == 1
    factories.end_all(running[1:3])
    assert in_line(tenant) == 3


def test_a_cap_in_one_pool_says_nothing_of_another() -> None:
    pool, other = factories.make_pool(), factories.make_pool()
    tenant = factories.make_tenant(max_running=7, pools={pool.name: {"max_running": 2}})
    factories.submit_many(tenant, factories.make_job_type(pool), 9)
    factories.submit_many(tenant, factories.make_job_type(other), 9)
    turns = Counter(Job.objects.filter(turn__isnull=False).values_list("pool_id", flat=True))
    assert turns == {pool.pk: 2, other.pk: 7}


def test_a_lone_uncapped_tenant_fills_the_pool() -> None:
    job_type = factories.make_job_type(factories.make_pool(accounts=3, sessions=20, window=10))
    tenant = factories.make_tenant()
    factories.submit_many(tenant, job_type, 80)
    for _ in range(6):
        assert transitions.assign(job_type.pool_id) == 10
        promote_all(job_type, tenant)
    assert transitions.assign(job_type.pool_id) == 0
    assert not db.value("SELECT count(*) FROM pool_resource WHERE state <> 'reserved'")


def test_a_fair_pool_serves_tenants_by_their_shares() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, window=20))
    shares = {factories.make_tenant(share=share): share for share in (1, 2, 4)}
    for tenant, share in shares.items():
        factories.submit_many(tenant, job_type, 120 * share)
    served: Counter[int] = Counter()
    for _ in range(70):
        given = assign_all(job_type)
        served.update(Job.objects.filter(pk__in=given).values_list("tenant_id", flat=True))
        promote_all(job_type, *shares)
        factories.end_all(given)
    assert served.total() == 700
    for tenant, share in shares.items():
        assert served[tenant.pk] == pytest.approx(100 * share, rel=0.05)


def test_a_heavier_job_costs_its_tenant_more_of_the_line() -> None:
    pool = factories.make_pool(sessions=10, window=20)
    light, heavy = factories.make_job_type(pool), factories.make_job_type(pool, weight="4")
    one, other = factories.make_tenant(), factories.make_tenant()
    for _ in range(16):
        factories.submit(one, light)
        factories.submit(other, heavy)
    assert transitions.assign(pool.pk) == 10
    served = Counter(Job.objects.filter(state="assigned").values_list("tenant_id", flat=True))
    assert served == {one.pk: 8, other.pk: 2}


def test_a_fifo_pool_serves_by_arrival_whoever_it_is() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, order="fifo"))
    big, small = factories.make_tenant(share=9), factories.make_tenant()
    jobs = [factories.submit(big if n % 3 else small, job_type) for n in range(12)]
    assert assign_all(job_type) == [job.pk for job in jobs[:10]]


def test_a_newcomer_behind_two_thousand_jobs_starts_within_a_round() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, window=20))
    big, small = factories.make_tenant(credits=5_000), factories.make_tenant()
    factories.submit_many(big, job_type, 1_000)
    factories.submit_many(big, job_type, 1_000)
    for _ in range(5):
        given = assign_all(job_type)
        promote_all(job_type, big)
        factories.end_all(given)
    newcomer = factories.submit(small, job_type)
    rounds = 0
    while newcomer.state == "pending":
        rounds += 1
        given = assign_all(job_type)
        promote_all(job_type, big)
        newcomer.refresh_from_db()
        factories.end_all(given)
    assert rounds == 1


def test_a_tenant_that_was_away_does_not_get_the_time_it_missed() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, window=20))
    here, away = factories.make_tenant(), factories.make_tenant()
    factories.submit_many(here, job_type, 100)
    for _ in range(4):
        given = assign_all(job_type)
        promote_all(job_type, here)
        factories.end_all(given)
    factories.submit_many(away, job_type, 40)
    served: Counter[int] = Counter()
    for _ in range(2):
        given = assign_all(job_type)
        served.update(Job.objects.filter(pk__in=given).values_list("tenant_id", flat=True))
        promote_all(job_type, here, away)
        factories.end_all(given)
    assert served[away.pk] == pytest.approx(10, abs=2)


def test_the_more_urgent_job_of_a_tenant_gets_its_next_turn() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=1, window=1))
    tenant = factories.make_tenant()
    first, second, urgent, third = (factories.submit(tenant, job_type, priority=p) for p in (0, 0, 9, 0))
    order = []
    for _ in range(4):
        order += assign_all(job_type)
        promote_all(job_type, tenant)
        factories.end_all(order[-1:])
    assert order == [first.pk, urgent.pk, second.pk, third.pk]


def test_a_retried_job_goes_back_in_line() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=1, window=1))
    tenant = factories.make_tenant()
    first, second, third = (factories.submit(tenant, job_type) for _ in range(3))
    assert assign_all(job_type) == [first.pk]
    promote_all(job_type, tenant)
    factories.end(first, factories.AWAY)
    db.let_time_pass(2)
    assert transitions.come_due([first.pk]) == 1
    assert assign_all(job_type) == [second.pk]
    promote_all(job_type, tenant)
    factories.end(second, factories.SUCCESS)
    first.refresh_from_db()
    third.refresh_from_db()
    assert first.turn is not None  # it came before the third, so it is first again among those that wait
    assert third.turn is None
    assert assign_all(job_type) == [first.pk]


def test_a_job_that_lost_its_worker_keeps_its_place() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=1))
    tenant, other = factories.make_tenant(), factories.make_tenant(share=100)
    first = factories.submit(tenant, job_type)
    assert assign_all(job_type) == [first.pk]
    for _ in range(3):
        factories.submit(tenant, job_type)
        factories.submit(other, job_type)
    db.let_time_pass(16)
    assert transitions.unassign([first.pk]) == 1
    assert assign_all(job_type) == [first.pk]
