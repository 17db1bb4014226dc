"""Accounts that refuse, and jobs that are refused everywhere: who rests, who goes offline, who fails, who comes back."""

from dataclasses import replace

import pytest

from jobs import transitions
from jobs.models import Job
from pool import transitions as sessions
from pool.models import AccountHealth
from tests import db, factories
from tests.factories import SUCCESS, session_of
from tests.jobs.health_world import REFUSED, World

pytestmark = pytest.mark.django_db


def test_what_one_tenant_was_refused_rests_the_account_and_its_job_moves_on_uncounted() -> None:
    world = World(accounts=2, sessions_each=2)
    running, job = world.on(0, 2)
    world.answer([job], REFUSED)
    job.refresh_from_db()
    assert (job.state, job.tries) == ("pending", 0)
    assert sorted(world.states(0)) == ["busy", "cooldown"]
    assert world.states(1) == ["available"] * 2
    world.answer([running], SUCCESS)
    assert world.states(0) == ["cooldown"] * 2, "it was sent before the refusal"
    assert "refused by the upstream: http_401" in session_of(job).reason
    world.put_aside(job)
    world.after(31)
    assert sorted(world.states(0)) == ["available", "cooldown"]
    world.run(0, SUCCESS)
    assert world.states(0) == ["available"] * 2
    assert (world.health().refused_tenant, world.health().refusals, world.health().level) == (None, 0, 0)


def test_an_account_that_refuses_two_tenants_goes_offline() -> None:
    world = World(accounts=2, sessions_each=2)
    world.run(0, REFUSED)
    world.after(31)
    other = world.run(0, REFUSED, tenant=factories.make_tenant())
    assert world.states(0) == ["offline"] * 2
    assert world.states(1) == ["available"] * 2
    assert "401" in session_of(other).note
    assert "not taken out by an operator" in session_of(other).note


def test_a_success_between_two_tenants_that_are_refused_speaks_for_the_account() -> None:
    world = World(accounts=2)
    for seconds in (31, 31, 31):
        world.run(0, REFUSED, tenant=factories.make_tenant())
        world.after(seconds)
        world.run(0, SUCCESS)
    assert world.states() == ["available"] * 2


def test_the_last_account_is_probed_whoever_it_refuses() -> None:
    world = World(sessions_each=2)
    for level in range(8):
        world.run(0, REFUSED, tenant=factories.make_tenant())
        assert world.states() == ["cooldown"] * 2
        rests = min(world.rest_seconds())
        assert rests == pytest.approx(min(30 * 2**level, 1_800), abs=2)
        world.after(rests + 1)
        assert sorted(world.states()) == ["available", "cooldown"]
    world.run(0, SUCCESS, tenant=factories.make_tenant())
    assert world.states() == ["available"] * 2


def test_where_nobody_else_can_confirm_the_third_job_does() -> None:
    world = World(accounts=2)
    for _ in range(3):
        assert world.states(0) != ["offline"]
        world.run(0, REFUSED)
        world.after(121)
    assert world.states() == ["offline", "available"]


def test_a_tenant_beside_others_takes_no_account_offline_however_often_it_is_refused() -> None:
    world = World(accounts=2)
    world.run(1, SUCCESS, tenant=factories.make_tenant())
    for _ in range(6):
        world.run(0, REFUSED)
        world.after(1_801)
        assert world.states(0) == ["available"]


@pytest.mark.parametrize("together", [True, False])
def test_as_many_jobs_at_fault_as_there_are_accounts_leave_the_pool_to_the_others(together: bool) -> None:
    world = World(accounts=4, sessions_each=2)
    good = factories.make_tenant(10_000)
    for account in range(4):
        world.run(account, SUCCESS, tenant=good)
    bad = [world.on(account)[0] for account in range(4)]
    for jobs in [bad] if together else [[job] for job in bad]:
        world.answer(jobs, REFUSED)
    assert world.states() == ["cooldown"] * 8
    world.put_aside(*bad)
    world.after(31)
    assert world.states().count("available") == 4
    world.answer(world.started(4, tenant=good), SUCCESS)
    assert world.states() == ["available"] * 8


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
    assert (job.state, job.error["code"]) == ("failed", "upstream_refused")  # type: ignore[index]
    assert factories.attempt_of(job).error_code == "http_401", "for operators"
    assert sorted(world.states()) == ["available", "cooldown", "cooldown"]
    world.after(31)
    assert world.states() == ["available"] * 3
    for account in range(3):
        world.run(account, SUCCESS)
    assert not AccountHealth.objects.filter(refused_job__isnull=False).exists()
    assert not AccountHealth.objects.filter(level__gt=0).exists()


def test_an_account_that_went_offline_by_the_word_of_a_job_at_fault_comes_back_to_be_probed() -> None:
    world = World(accounts=3)
    world.run(0, REFUSED)
    world.after(31)
    (job,) = world.on(0, tenant=factories.make_tenant())
    world.answer([job], REFUSED)
    assert world.states() == ["offline", "available", "available"]
    move_on(world, job)
    world.answer([job], REFUSED)
    job.refresh_from_db()
    assert job.state == "failed"
    assert world.states() == ["cooldown", "cooldown", "available"]
    assert (world.health(0).refusals, world.health(1).refused_tenant) == (1, None)
    world.after(61)
    assert world.states() == ["available"] * 3


def test_a_job_that_the_last_account_refuses_three_times_is_at_fault() -> None:
    world = World()
    (job,) = world.on(0)
    for seconds in (31, 61):
        world.answer([job], REFUSED)
        job.refresh_from_db()
        assert (job.state, job.tries) == ("pending", 0)
        world.after(seconds)
        move_on(world, job)
    world.answer([job], REFUSED)
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "upstream_refused")  # type: ignore[index]
    assert world.states() == ["cooldown"]


def test_two_tenants_with_jobs_at_fault_leave_an_idle_pool_to_the_others() -> None:
    world = World(accounts=6)
    tenants = [factories.make_tenant(1_000) for _ in range(2)]
    for number in range(16):
        if "available" not in world.states():
            world.after(40)
        if "available" not in world.states():
            break
        job = factories.submit(tenants[number % 2], world.type)
        for _ in range(4):
            db.execute("UPDATE jobs_job SET due_at = clock_timestamp() WHERE due_at IS NOT NULL")
            transitions.come_due([job.pk])
            if not transitions.assign(world.pool.pk):
                break
            factories.dispatch(job)
            world.answer([job], REFUSED)
        world.put_aside(job)
    world.after(1_801)
    assert "available" in world.states()


def test_many_calls_that_were_on_their_way_are_one_rest() -> None:
    world = World(accounts=2, sessions_each=6)
    world.run(1, SUCCESS, tenant=factories.make_tenant())
    jobs = world.on(0, 6)
    world.answer(jobs[:3], REFUSED)
    before = world.health().open_until
    world.answer(jobs[3:], REFUSED)
    assert (world.health().level, world.health().open_until) == (1, before)
    assert world.states(0) == ["cooldown"] * 6


def test_what_an_upstream_says_of_a_refusal_can_be_stored_whatever_it_is() -> None:
    world = World(accounts=2)
    odd = replace(REFUSED, error_code="\ud800", error_message="no\x00 \udfff key")
    for _ in range(2):
        world.run(0, odd, tenant=factories.make_tenant())
        world.after(31)
    assert world.states(0) == ["offline"]
    assert "no\ufffd ? key" in world.health().why


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
    for _ in range(3):
        world.run(0, REFUSED)
        world.after(61)
    assert world.states() == ["offline"]
    sessions.enable(list(world.pool.resources.values_list("pk", flat=True)))
    session = world.pool.resources.get()
    assert (session.state, session.disabled, session.refused, session.note) == ("available", False, False, "")
    assert world.health().refused_job is None
