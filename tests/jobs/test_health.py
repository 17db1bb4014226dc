"""Accounts that fail: who rests, who goes offline, who is blamed, and what brings them back. By the verbs alone, on rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jobs import transitions
from jobs.models import Job, JobType
from pool import transitions as sessions
from pool.models import AccountHealth, PoolHealth, Resource
from tests import db, factories
from tests.factories import AWAY, BUSY, FAILURE, NO_KEY, REJECTED, SUCCESS, attempt_of, session_of
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db

HTTP_503 = replace(AWAY, status=503, error_code="http_503")
BARE_429 = replace(BUSY, retry_after_ms=None)
REFUSED = replace(NO_KEY, error_code="http_401", error_message="unknown key")
OFTEN = {"attempts": 100}


class World:
    """A pool and a tenant with jobs; `run` gives one to a session of the account and ends it."""

    def __init__(self, accounts: int = 1, sessions_each: int = 1, **fields: Any) -> None:
        self.pool = factories.make_pool(sessions=sessions_each, accounts=accounts, **fields)
        self.type = factories.make_job_type(self.pool, retry=OFTEN, delivery="at_least_once")
        self.tenant = factories.make_tenant(10_000)
        self.accounts = list(self.pool.accounts.order_by("id"))

    def started(self, count: int = 1, job_type: JobType | None = None, tenant: Any = None) -> list[Job]:
        """New jobs whose calls are on their way; the pool has as many free sessions."""
        jobs = [factories.submit(tenant or self.tenant, job_type or self.type) for _ in range(count)]
        assert transitions.assign(self.pool.pk) == count
        transitions.dispatch([job.pk for job in jobs], factories.HOLDER)
        return jobs

    def on(self, account: int, count: int = 1, **of: Any) -> list[Job]:
        """The same, on the sessions of one account: those of the others are held back."""
        others = Resource.objects.exclude(account=self.accounts[account])
        others.update(accepting=False)
        try:
            return self.started(count, **of)
        finally:
            others.update(accepting=True)

    def answer(self, jobs: Sequence[Job], outcome: Outcome) -> None:
        """They are answered, and finished."""
        from jobs.findings import Finding
        from jobs.queries import flights

        ids = [attempt_of(job).pk for job in jobs]
        transitions.learn([Finding(flight, outcome) for flight in flights.opened(ids)])
        transitions.finish([job.pk for job in jobs])

    def run(self, account: int, outcome: Outcome, times: int = 1, **of: Any) -> Job:
        """One job after the other; the last of them."""
        for _ in range(times):
            (job,) = self.on(account, **of)
            self.answer([job], outcome)
            self.put_aside(job)
        job.refresh_from_db()
        return job

    def put_aside(self, *jobs: Job) -> None:
        """What goes back to its line would be the next to run."""
        for job in jobs:
            transitions.cancel(job.pk)

    def states(self, account: int | None = None) -> list[str]:
        found = self.pool.resources if account is None else self.accounts[account].resources
        return list(found.order_by("id").values_list("state", flat=True))

    def health(self, account: int = 0) -> AccountHealth:
        return AccountHealth.objects.get(account=self.accounts[account])

    def of_pool(self) -> PoolHealth:
        return PoolHealth.objects.get(pool=self.pool)

    def rest_seconds(self, account: int = 0) -> list[float]:
        """How long each session of the account rests from now; 0 for one that does not."""
        now = db.value("SELECT clock_timestamp()")
        found = self.accounts[account].resources.order_by("number")
        return [(each.available_at - now).total_seconds() if each.available_at else 0 for each in found]

    def after(self, seconds: float) -> None:
        """Time passes, and what is due is released."""
        db.let_time_pass(seconds)
        sessions.release(list(self.pool.resources.values_list("pk", flat=True)))


# --- Retry-After ---


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
        world.after(2)
        transitions.come_due([job.pk])
        transitions.promote(world.pool.pk, [world.tenant.pk])
    transitions.assign(world.pool.pk)
    factories.end(job, SUCCESS)
    assert (job.state, job.tries, job.attempts) == ("completed", 1, 101)
    assert world.states() == ["available"]


# --- the breaker of an account ---


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
    assert world.accounts[0].resources.first().reason.startswith("503 http_503")  # type: ignore[union-attr]


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
    world.answer(world.started(5), Outcome(over=True, verdict="not_executed", error_class="transient", error_code="worker_stopped"))  # fmt: skip
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


# --- a common cause ---


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
    world = World(accounts=3)
    for job, ms in zip(world.started(3), (5_000, 90_000, 20_000), strict=True):
        world.answer([job], replace(BUSY, retry_after_ms=ms))
    assert 89 < (world.of_pool().open_until - db.value("SELECT clock_timestamp()")).total_seconds() <= 90  # type: ignore[operator]
    assert world.states() == ["cooldown"] * 3


def test_a_pool_probe_that_fails_begins_a_longer_rest() -> None:
    world = World(accounts=3)
    jobs = world.started(3)
    world.answer(jobs, BARE_429)
    world.put_aside(*jobs)
    world.after(31)
    (probe,) = world.started(1)
    world.answer([probe], BARE_429)
    assert world.of_pool().level == 2
    assert 59 < (world.of_pool().open_until - db.value("SELECT clock_timestamp()")).total_seconds() <= 60  # type: ignore[operator]


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
    factories.learn(_flight(job), SUCCESS)
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


# --- refused accounts ---


def test_a_refused_account_goes_offline_and_the_job_moves_on_uncounted() -> None:
    world = World(accounts=2, sessions_each=2)
    running, job = world.on(0, 2)
    world.answer([job], REFUSED)
    job.refresh_from_db()
    assert (job.state, job.tries) == ("pending", 0)
    assert sorted(world.states(0)) == ["busy", "offline"]
    assert world.states(1) == ["available"] * 2
    world.answer([running], SUCCESS)
    assert world.states(0) == ["offline"] * 2
    note = session_of(job).note
    assert "401" in note
    assert "not taken out by an operator" in note


def move_on(world: World, job: Job) -> None:
    """A job that was refused takes the next session."""
    db.let_time_pass(2)
    transitions.come_due([job.pk])
    transitions.promote(world.pool.pk, [job.tenant_id])
    assert transitions.assign(world.pool.pk) == 1
    factories.dispatch(job)


def test_a_job_that_two_accounts_refuse_fails_and_takes_neither_down() -> None:
    world = World(accounts=3)
    (job,) = world.on(0)
    world.answer([job], REFUSED)
    move_on(world, job)
    world.answer([job], REFUSED)
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "http_401")  # type: ignore[index]
    assert sorted(world.states()) == ["available", "cooldown", "cooldown"]
    world.after(31)
    assert world.states() == ["available"] * 3
    for account in range(3):
        world.run(account, SUCCESS)
    assert not AccountHealth.objects.filter(refused_job__isnull=False).exists()
    assert not AccountHealth.objects.filter(level__gt=0).exists()


def test_an_account_that_refused_another_tenant_too_is_refused_whoever_asks() -> None:
    world = World(accounts=2)
    (job,) = world.on(0)
    world.answer([job], REFUSED)
    move_on(world, job)
    world.answer([job], REFUSED)
    world.after(31)
    (other,) = world.on(0, tenant=factories.make_tenant())
    world.answer([other], REFUSED)
    assert world.states() == ["offline", "available"]
    move_on(world, other)
    world.answer([other], REFUSED)
    other.refresh_from_db()
    assert world.states() == ["offline", "offline"]
    assert (other.state, other.tries) == ("pending", 0)


def test_a_flood_of_jobs_at_fault_takes_no_account_down_for_good() -> None:
    world = World(accounts=4)
    for _ in range(8):
        job = factories.submit(world.tenant, world.type)
        for _ in range(4):
            job.refresh_from_db()
            if job.state != "pending":
                break
            world.after(2_000)
            transitions.come_due([job.pk])
            transitions.promote(world.pool.pk, [job.tenant_id])
            if transitions.assign(world.pool.pk):
                factories.dispatch(job)
                world.answer([job], REFUSED)
        assert job.state == "failed"
    world.after(3_600)
    assert world.states() == ["available"] * 4


def test_an_operator_puts_a_refused_account_back() -> None:
    world = World()
    world.run(0, REFUSED)
    assert world.states() == ["offline"]
    sessions.enable(list(world.pool.resources.values_list("pk", flat=True)))
    session = world.pool.resources.get()
    assert (session.state, session.disabled, session.refused, session.note) == ("available", False, False, "")
    assert world.health().refused_job is None


def test_when_all_is_well_no_row_of_health_is_written(django_assert_max_num_queries: Any) -> None:
    world = World()
    (job,) = world.started()
    flight = _flight(job)
    with django_assert_max_num_queries(
        6
    ):  # a savepoint and its end, evidence, lock and end of the attempt, the session
        factories.learn(flight, SUCCESS)
    transitions.finish([job.pk])
    assert not PoolHealth.objects.exists()
    assert not AccountHealth.objects.exists()


def _flight(job: Job) -> factories.Flight:
    from jobs.queries import flights

    return flights.opened([attempt_of(job).pk])[0]
