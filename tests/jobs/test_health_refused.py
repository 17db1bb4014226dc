"""Accounts that refuse, and jobs that are refused everywhere: who goes offline, who fails, who comes back."""

import pytest

from jobs import transitions
from jobs.models import Job
from pool import transitions as sessions
from pool.models import AccountHealth
from tests import db, factories
from tests.factories import SUCCESS, session_of
from tests.jobs.health_world import REFUSED, World

pytestmark = pytest.mark.django_db


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
    assert (job.state, job.error["code"]) == ("failed", "upstream_refused")  # type: ignore[index]
    assert factories.attempt_of(job).error_code == "http_401", "for operators"
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
