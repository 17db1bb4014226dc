"""Accounts that fail, one at a time: Retry-After, the breaker and its probe. By the verbs alone, on rows."""

from dataclasses import replace
from typing import Any

import pytest

from jobs import transitions
from pool import transitions as sessions
from pool.models import AccountHealth, PoolHealth
from tests import factories
from tests.factories import BUSY, FAILURE, REJECTED, SUCCESS, session_of
from tests.jobs.health_world import BARE_429, HTTP_503, World, flight_of
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db


def test_a_retry_after_rests_all_sessions_of_the_account_and_no_other() -> None:
    world = World(accounts=2, sessions_each=3)
    running, refused = world.on(0, 2)
    world.answer([refused], BUSY)
    assert sorted(world.states(0)) == ["busy", "cooldown", "cooldown"]
    assert world.states(1) == ["available"] * 3
    world.answer([running], SUCCESS)
    assert world.states(0) == ["cooldown"] * 3
    assert all(4 < seconds <= 5 for seconds in world.rest_seconds())
    assert "asked for a rest" in session_of(running).reason
    world.after(5)
    assert world.states(0) == ["available"] * 3
    assert session_of(running).reason == ""


def test_without_a_retry_after_only_the_refused_session_rests() -> None:
    world = World(sessions_each=3)
    world.run(0, BARE_429)
    assert sorted(world.states()) == ["available", "available", "cooldown"]
    assert max(world.rest_seconds()) <= 1


@pytest.mark.parametrize("asked_ms", [(60_000, 5_000), (5_000, 60_000)])
def test_of_two_retry_afters_the_longer_stands_in_either_order(asked_ms: tuple[int, int]) -> None:
    world = World(sessions_each=3)
    for job, ms in zip(world.started(2), asked_ms, strict=True):
        world.answer([job], replace(BUSY, retry_after_ms=ms))
    assert all(58 < seconds <= 60 for seconds in world.rest_seconds())
    assert transitions.assign(world.pool.pk) == 0


def test_a_retry_after_is_bounded_by_an_hour() -> None:
    world = World(sessions_each=2)
    world.run(0, replace(BUSY, retry_after_ms=24 * 3_600_000))
    assert all(3_590 < seconds <= 3_600 for seconds in world.rest_seconds())


def test_a_rest_never_takes_an_operators_word_back() -> None:
    world = World(sessions_each=4)
    drained, disabled, quarantined, _ = world.pool.resources.order_by("number").values_list("pk", flat=True)
    sessions.drain([drained], "planned")
    sessions.disable([disabled], "banned")
    sessions.quarantine([quarantined], 600, "odd")
    world.run(0, BUSY)
    world.after(6)
    assert world.states() == ["available", "offline", "cooldown", "available"]
    assert [each.accepting for each in world.pool.resources.order_by("number")] == [False, True, True, True]


def test_an_operator_may_end_even_a_rest_that_the_upstream_asked_for() -> None:
    world = World(sessions_each=2)
    world.run(0, replace(BUSY, retry_after_ms=60_000))
    ids = list(world.pool.resources.values_list("pk", flat=True))
    sessions.enable(ids)
    assert world.states() == ["cooldown"] * 2
    assert sessions.end_rest(ids) == 2
    assert sessions.end_rest(ids) == 0
    assert world.states() == ["available"] * 2


def test_a_hundred_busy_answers_cost_no_try() -> None:
    world = World()
    job = factories.submit(world.tenant, world.type, max_attempts=1)
    for _ in range(100):
        assert transitions.assign(world.pool.pk) == 1
        factories.end(job, BARE_429)
        world.after(301)  # a pause grows with the time since the first start, to five minutes
        transitions.come_due([job.pk])
        transitions.promote(world.pool.pk, [world.tenant.pk])
    transitions.assign(world.pool.pk)
    factories.end(job, SUCCESS)
    assert (job.state, job.tries, job.attempts) == ("completed", 1, 101)
    assert world.states() == ["available"]


def test_failures_in_a_row_quarantine_the_account_and_success_heals() -> None:
    world = World(accounts=2, sessions_each=2)
    world.run(0, HTTP_503, times=4)
    assert world.states() == ["available"] * 4
    world.run(0, SUCCESS)
    assert world.health().failures == 0
    world.run(0, HTTP_503, times=4)
    assert world.states() == ["available"] * 4
    world.run(0, HTTP_503)
    assert world.states(0) == ["cooldown"] * 2
    assert world.states(1) == ["available"] * 2
    first, second = world.rest_seconds()
    assert (29 < first <= 30, 1_825 < second <= 1_830) == (True, True)
    assert world.accounts[0].resources.first().reason.startswith("http_503")  # type: ignore[union-attr]


@pytest.mark.parametrize("outcome", [REJECTED, FAILURE])
def test_what_is_the_tenants_fault_is_not_the_accounts(outcome: Outcome) -> None:
    world = World()
    world.run(0, outcome, times=10)
    assert world.states() == ["available"]
    assert not AccountHealth.objects.exists()


def test_one_failure_in_fifty_never_quarantines() -> None:
    world = World()
    for _ in range(8):
        world.run(0, HTTP_503)
        world.run(0, SUCCESS, times=3)
        assert world.states() == ["available"]
    assert (world.health().failures, world.health().level) == (0, 0)


@pytest.mark.parametrize(
    "outcome",
    [
        replace(factories.ERROR_500, error_class=""),
        Outcome(over=False, verdict="unknown", error_code="timeout"),
        Outcome(over=False, verdict="unknown", error_code="cut"),
    ],
)
def test_lost_answers_and_server_errors_count(outcome: Outcome) -> None:
    world = World(accounts=1, sessions_each=5)
    world.answer(world.started(5), outcome)
    assert world.health().level == 1


def test_our_own_worker_that_stops_is_not_the_accounts_failure() -> None:
    world = World(sessions_each=5)
    stopped = Outcome(over=True, verdict="not_executed", error_class="transient", error_code="worker_stopped")
    world.answer(world.started(5), stopped)
    assert not AccountHealth.objects.exists()


def quarantined(**fields: Any) -> World:
    """An account of three sessions whose breaker has just opened."""
    world = World(sessions_each=3, **fields)
    world.run(0, HTTP_503, times=5)
    assert world.states() == ["cooldown"] * 3
    return world


def test_one_session_comes_back_first_and_its_success_brings_the_others() -> None:
    world = quarantined()
    world.after(31)
    assert world.states() == ["available", "cooldown", "cooldown"]
    world.run(0, SUCCESS)
    assert world.states() == ["available"] * 3
    health = world.health()
    assert (health.failures, health.level, health.open_until) == (0, 0, None)


@pytest.mark.parametrize("outcome", [REJECTED, FAILURE])
def test_any_answer_of_the_probe_brings_the_others_back_and_only_success_ends_the_growth(outcome: Outcome) -> None:
    world = quarantined()
    world.after(31)
    world.run(0, outcome)
    assert world.states() == ["available"] * 3
    assert world.health().level == 1
    world.run(0, HTTP_503, times=5)
    assert 59 < min(world.rest_seconds()) <= 60


def test_a_probe_that_was_taken_brings_the_others_back_before_it_ends() -> None:
    world = quarantined()
    world.after(31)
    (probe,) = world.started(1)
    factories.learn(flight_of(probe), Outcome(over=False, verdict="", reference="task-1"))
    assert world.states() == ["busy", "available", "available"]
    assert (world.health().open_until, world.health().level) == (None, 1)


def test_a_probe_that_fails_begins_a_longer_quarantine_up_to_the_longest() -> None:
    world = quarantined(breaker={"failures": 5, "quarantine_ms": 30_000, "max_ms": 100_000})
    for expected in (60, 100, 100):
        world.after(101)
        assert world.states().count("available") == 1
        world.run(0, HTTP_503)
        assert expected - 1 < min(world.rest_seconds()) <= expected


def test_calls_that_were_sent_before_the_quarantine_make_it_no_longer() -> None:
    world = World(sessions_each=10)
    jobs = world.started(10)
    world.answer(jobs[:5], HTTP_503)
    before = world.health().open_until
    world.answer(jobs[5:], HTTP_503)
    assert (world.health().level, world.health().open_until) == (1, before)
    assert world.states() == ["cooldown"] * 10


def test_a_success_that_was_sent_before_the_quarantine_does_not_end_it() -> None:
    world = World(sessions_each=6)
    jobs = world.started(6)
    world.answer(jobs[:5], HTTP_503)
    world.answer(jobs[5:], SUCCESS)
    assert world.states() == ["cooldown"] * 6


def test_without_an_answer_of_the_probe_the_others_come_back_by_time() -> None:
    world = quarantined()
    world.after(30 + 1_800)
    assert world.states() == ["available"] * 3


def test_healing_ends_no_rest_that_the_upstream_asked_for_nor_an_operators() -> None:
    world = World(sessions_each=3)
    ids = list(world.pool.resources.order_by("number").values_list("pk", flat=True))
    jobs = world.started(3)
    world.answer(jobs[:1], replace(BUSY, retry_after_ms=600_000))
    sessions.end_rest(ids[:1])
    world.answer(jobs[1:], HTTP_503)
    world.run(0, HTTP_503, times=3)
    sessions.quarantine(ids[1:2], 300, "odd")
    world.after(31)
    world.run(0, SUCCESS)
    now = world.rest_seconds()
    assert now[0] == 0
    assert 250 < now[1] < 600
    assert 550 < now[2] < 600


def test_an_operator_ends_a_quarantine_of_the_breaker() -> None:
    world = quarantined()
    sessions.enable(list(world.pool.resources.values_list("pk", flat=True)))
    assert world.states() == ["available"] * 3
    assert (world.health().level, world.health().open_until) == (0, None)


def test_when_all_is_well_no_row_of_health_is_written(django_assert_max_num_queries: Any) -> None:
    world = World()
    (job,) = world.started()
    flight = flight_of(job)
    with django_assert_max_num_queries(
        6
    ):  # a savepoint and its end, evidence, lock and end of the attempt, the session
        factories.learn(flight, SUCCESS)
    transitions.finish([job.pk])
    assert not PoolHealth.objects.exists()
    assert not AccountHealth.objects.exists()
