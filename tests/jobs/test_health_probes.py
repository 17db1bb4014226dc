"""A probe that is lost, of an account or of a whole pool: another is elected, at once or by the next sweep."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest
from django.db import transaction

from jobs import sweep, transitions
from pool import transitions as sessions
from pool.models import Resource
from tests import db, factories
from tests.jobs.health_world import HTTP_503, REFUSED, World, flight_of
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
TAKEN_AWAY: dict[str, Callable[[list[int]], int]] = {
    "drained": lambda ids: sessions.drain(ids, "gone"),
    "disabled": lambda ids: sessions.disable(ids, "gone"),
    "quarantined": lambda ids: sessions.quarantine(ids, 86_400, "gone"),
}


def quarantined() -> World:
    """An account of three sessions whose breaker has just opened."""
    world = World(sessions_each=3)
    world.run(0, HTTP_503, times=5)
    return world


def resting_pool() -> World:
    """A pool of three accounts that has just begun to rest as one."""
    world = World(accounts=3, sessions_each=2)
    jobs = [world.on(account)[0] for account in range(3)]
    world.answer(jobs, HTTP_503)
    world.put_aside(*jobs)
    assert world.of_pool().open_until
    return world


def of_account(world: World, resource_id: int | None) -> list[int]:
    session = Resource.objects.get(pk=resource_id)
    return list(world.pool.resources.filter(account=session.account_id).order_by("id").values_list("pk", flat=True))


@pytest.mark.parametrize("taken_away", TAKEN_AWAY)
def test_of_an_account_another_session_is_the_probe(taken_away: str) -> None:
    world = quarantined()
    lost = world.health().probe_id
    TAKEN_AWAY[taken_away]([lost or 0])
    assert world.health().probe_id not in (None, lost)
    world.after(31)
    assert transitions.assign(world.pool.pk) == 0
    assert len(world.started(1)) == 1


@pytest.mark.parametrize("taken_away", TAKEN_AWAY)
def test_of_a_pool_a_session_of_another_account_is_the_probe(taken_away: str) -> None:
    world = resting_pool()
    gone = of_account(world, world.of_pool().probe_id)
    TAKEN_AWAY[taken_away](gone)
    assert world.of_pool().probe_id not in (None, *gone)
    world.after(31)
    (job,) = world.started(1)
    world.answer([job], factories.SUCCESS)
    assert world.states().count("available") == 4 + 2 * (taken_away == "drained")


def test_when_the_account_of_a_pools_probe_is_refused_another_account_is_asked() -> None:
    world = resting_pool()
    world.after(31)
    refused = of_account(world, world.of_pool().probe_id)
    (job,) = world.started(1)
    world.answer([job], REFUSED)
    assert world.of_pool().probe_id not in (None, *refused)
    assert transitions.assign(world.pool.pk) == 0, "its job waits a moment before it moves on"
    assert len(world.started(1)) == 1


def test_a_probe_that_runs_when_it_is_drained_is_waited_for_and_then_replaced() -> None:
    world = quarantined()
    world.after(31)
    (job,) = world.started(1)
    probe = world.health().probe_id
    sessions.drain([probe or 0], "planned")
    assert world.health().probe_id == probe
    nothing_said = Outcome(over=True, verdict="not_executed", error_class="transient", error_code="worker_stopped")
    world.answer([job], nothing_said)
    world.put_aside(job)
    sweep._run([step for step in sweep.FLOW if step.task == "replace_probes"])
    assert world.health().probe_id not in (None, probe)
    assert len(world.started(1)) == 1


def test_the_sweep_leaves_a_probe_that_may_run_and_a_breaker_that_nobody_could_probe() -> None:
    one, other = quarantined(), quarantined()
    sessions.disable(of_account(other, other.health().probe_id), "all gone")
    before = db.everything()
    assert sweep._missed(next(step for step in sweep.FLOW if step.task == "replace_probes")) == []
    for world in (one, other):
        sessions.replace_probes(world.pool.pk)
    assert db.everything() == before


def test_a_second_probe_that_fails_begins_the_longer_quarantine_too() -> None:
    world = quarantined()
    sessions.disable([world.health().probe_id or 0], "gone")
    world.after(31)
    (job,) = world.started(1)
    world.answer([job], replace(HTTP_503))
    assert world.health().level == 2


@pytest.mark.django_db(transaction=True)
def test_an_operator_who_takes_the_probe_while_a_failure_is_weighed_comes_after_it() -> None:
    world = World(sessions_each=3)
    world.run(0, HTTP_503, times=4)
    (job,) = world.started(1)
    first = of_account(world, world.pool.resources.order_by("number")[0].pk)[:1]
    with transaction.atomic():
        factories.learn(flight_of(job), HTTP_503)
        later: Future[int] = db.in_another_connection(lambda: sessions.disable(first, "gone"))
        db.wait_until_blocked_by_us()
    assert later.result(db.RACE_SECONDS) == 1
    assert world.health().probe_id not in (None, *first)
