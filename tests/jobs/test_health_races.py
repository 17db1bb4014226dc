"""Two who learn of failures at once: the second waits at the pool, weighs what the first left, and both are counted."""

from concurrent.futures import Future

import pytest
from django.db import transaction

from jobs import transitions
from jobs.findings import Finding
from pool import transitions as sessions
from tests import db, factories
from tests.factories import BUSY, SUCCESS
from tests.jobs.health_world import HTTP_503, World, flight_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_failures_at_once_are_both_counted() -> None:
    world = World(sessions_each=3)
    first, second, _ = (Finding(flight_of(job), HTTP_503) for job in world.started(3))
    with transaction.atomic():
        transitions.learn([first])
        later: Future[None] = db.in_another_connection(lambda: transitions.learn([second]))
        db.wait_until_blocked_by_us()
    later.result(db.RACE_SECONDS)
    assert world.health().failures == 2


def test_of_two_retry_afters_at_once_the_longer_stands() -> None:
    world = World(sessions_each=4)
    longer, shorter = world.started(2)
    with transaction.atomic():
        transitions.learn([Finding(flight_of(longer), BUSY)])
        flight = flight_of(shorter)
        later: Future[None] = db.in_another_connection(lambda: transitions.learn([Finding(flight, BUSY)]))
        db.wait_until_blocked_by_us()
    later.result(db.RACE_SECONDS)
    assert all(3 < seconds <= 5 for seconds in world.rest_seconds())


def test_a_success_beside_a_failure_that_rests_its_account_waits_for_it_and_rests() -> None:
    world = World(sessions_each=2)
    refused, well = (flight_of(job) for job in world.started(2))
    with transaction.atomic():
        transitions.learn([Finding(refused, BUSY)])
        later: Future[None] = db.in_another_connection(lambda: transitions.learn([Finding(well, SUCCESS)]))
        db.wait_until_blocked_by_us()
    later.result(db.RACE_SECONDS)
    assert world.states() == ["cooldown"] * 2


def test_an_assign_at_the_same_time_is_first_or_finds_the_account_at_rest() -> None:
    world = World(sessions_each=3)
    (job,) = world.started(1)
    factories.submit(world.tenant, world.type)
    with transaction.atomic():
        transitions.learn([Finding(flight_of(job), BUSY)])
        assert db.in_another_connection(lambda: transitions.assign(world.pool.pk)).result(db.RACE_SECONDS) == 0
    assert transitions.assign(world.pool.pk) == 0


def test_an_operator_who_enables_while_a_failure_is_weighed_comes_after_it() -> None:
    world = World(sessions_each=2)
    for _ in range(4):
        world.run(0, HTTP_503)
    (job,) = world.started(1)
    ids = list(world.pool.resources.values_list("pk", flat=True))
    with transaction.atomic():
        transitions.learn([Finding(flight_of(job), HTTP_503)])
        later: Future[int] = db.in_another_connection(lambda: sessions.enable(ids))
        db.wait_until_blocked_by_us()
    assert later.result(db.RACE_SECONDS) == 2
    assert world.states() == ["available"] * 2
