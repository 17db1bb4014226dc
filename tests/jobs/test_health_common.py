"""Failures of several accounts at once: the pool rests as one, and nobody is blamed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs import transitions
from pool.models import AccountHealth
from tests import db, factories
from tests.factories import BUSY, SUCCESS, session_of
from tests.jobs.health_world import BARE_429, HTTP_503, World, flight_of

pytestmark = pytest.mark.django_db


def test_several_accounts_at_once_rest_as_one_pool_and_none_is_blamed() -> None:
    world = World(accounts=4, sessions_each=2)
    jobs = world.started(8)
    world.answer([job for job in jobs if session_of(job).account_id != world.accounts[3].pk][:6], HTTP_503)
    states = world.states()
    assert (states.count("cooldown"), states.count("busy")) == (6, 2)
    assert {health.failures for health in AccountHealth.objects.all()} == {0}
    assert not AccountHealth.objects.filter(open_until__isnull=False).exists()
    assert world.of_pool().level == 1
    world.put_aside(*jobs)
    world.after(31)
    assert world.states().count("available") == 1  # one probe of the whole pool
    world.answer(world.started(1), SUCCESS)
    assert world.states().count("cooldown") == 0
    assert (world.of_pool().level, world.of_pool().open_until) == (0, None)


def test_a_common_429_rests_the_pool_by_the_longest_retry_after() -> None:
    world, before = World(accounts=3), db.value("SELECT clock_timestamp()")
    for job, ms in zip(world.started(3), (5_000, 90_000, 20_000), strict=True):
        world.answer([job], replace(BUSY, retry_after_ms=ms))
    assert before < world.of_pool().open_until - timedelta(seconds=90) < db.value("SELECT clock_timestamp()")  # type: ignore[operator]
    assert world.states() == ["cooldown"] * 3


def test_a_pool_probe_that_fails_begins_a_longer_rest() -> None:
    world = World(accounts=3)
    jobs = world.started(3)
    world.answer(jobs, BARE_429)
    world.put_aside(*jobs)
    world.after(31)
    (probe,) = world.started(1)
    before = db.value("SELECT clock_timestamp()")
    world.answer([probe], BARE_429)
    assert world.of_pool().level == 2
    assert before < world.of_pool().open_until - timedelta(seconds=60) < db.value("SELECT clock_timestamp()")  # type: ignore[operator]


def test_two_accounts_share_a_cause_only_where_there_are_two() -> None:
    two, three = World(accounts=2), World(accounts=3)
    two.answer(two.started(2), HTTP_503)
    three.answer(three.started(3)[:2], HTTP_503)
    assert (two.of_pool().level, three.of_pool().level) == (1, 0)


def test_a_success_since_the_first_failure_speaks_against_a_common_cause() -> None:
    world = World(accounts=4)
    world.run(0, HTTP_503)
    world.run(1, HTTP_503)
    world.run(3, SUCCESS)
    world.run(2, HTTP_503)
    assert world.of_pool().level == 0
    assert [world.health(account).failures for account in range(3)] == [1, 1, 1]


def test_a_success_whose_job_was_not_finished_yet_speaks_as_well() -> None:
    world = World(accounts=4)
    world.run(0, HTTP_503)
    (job,) = world.on(3)
    factories.learn(flight_of(job), SUCCESS)
    world.run(1, HTTP_503)
    world.run(2, HTTP_503)
    assert world.of_pool().level == 0
    transitions.finish([job.pk])


def test_a_call_that_goes_on_without_being_refused_speaks_as_well() -> None:
    world = World(accounts=4)
    world.run(0, BARE_429)
    world.on(3)
    db.let_time_pass(1.5)
    world.run(1, BARE_429)
    world.run(2, BARE_429)
    assert world.of_pool().level == 0


def test_failures_long_apart_have_no_common_cause() -> None:
    world = World(accounts=3)
    for account in range(3):
        world.run(account, HTTP_503)
        db.let_time_pass(11)
    assert world.of_pool().level == 0
