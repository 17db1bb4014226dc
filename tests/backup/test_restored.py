"""What the command `restored` says and does: pools are closed, and opened early for a reason."""

import io
from contextlib import closing

import psycopg2
import pytest
from django.core.management import CommandError, call_command

from broker_project.backup import server
from jobs import redrives
from jobs.dead_letters import Filter
from jobs.models import JobMove
from pool.models import Restoration
from statemachine.actors import at_the_shell
from tests import factories
from tests.backup.test_archive import said

pytestmark = pytest.mark.django_db


def test_the_command_closes_pools_says_so_and_opens_them_for_a_reason() -> None:
    pool = factories.make_job_type().pool
    factories.submit(factories.make_tenant(), pool.job_types.get())
    assert "1 waiting or running job may" in said("restored")
    assert f"pool {pool.name}: closed until" in said("restored", status=True)
    with pytest.raises(CommandError, match="--reason"):
        call_command("restored", open=pool.name)
    for closes_nothing in ("--status", f"--open={pool.name}"):
        for more in ("--quiet-since=2026-01-31T12:00:00Z", "--went-back-to=2026-01-31", "--while-running"):
            with pytest.raises(CommandError, match=f"^{more.partition('=')[0]}: not with --status or --open"):
                call_command("restored", closes_nothing, "--reason=why", more)
    with pytest.raises(CommandError, match="--reason: not with --status"):
        call_command("restored", "--status", "--reason=why")
    with pytest.raises(CommandError, match="no pool 'nobody'"):
        call_command("restored", open="nobody", reason="why")
    opened = said("restored", open=pool.name, reason="their page shows no run")
    assert JobMove.objects.latest("id").actor == at_the_shell()
    assert f"pool {pool.name} is opened early by {at_the_shell()}: " in opened
    assert "0 waiting jobs may run, 1 failed with outcome_unknown, 0 are still being found out" in opened
    assert opened.endswith("\nevery pool is open\n")
    with pytest.raises(CommandError, match="is open"):
        call_command("restored", open=pool.name, reason="again")


def test_the_command_says_how_many_redrives_it_ended() -> None:
    factories.at("failed")
    redrives.begin(Filter(), 1.0, None, why="the provider is back", actor="admin:root")
    assert "1 redrive that ran ended" in said("restored")
    assert "redrive" not in said("restored")


def test_who_lost_nothing_is_told_of_pools_that_stay_closed() -> None:
    pool = factories.make_job_type().pool
    call_command("restored", reason="of the week before", stdout=io.StringIO())
    told = said("restored", nothing_lost=True, reason="synchronous replica")
    assert "stays closed" in told
    assert (f"pool {pool.name}: closed until" in told, "of the week before" in told) == (True, True)


def test_no_pool_of_an_installation_that_runs_is_closed_unasked() -> None:
    factories.make_job_type()
    running = psycopg2.connect(server.url_of(server.name()), application_name="berth worker:assign 4711")
    with closing(running):
        with pytest.raises(CommandError, match=r"are connected to this database \(1 worker:assign\).*--while-running"):
            call_command("restored")
        assert not Restoration.objects.exists()
        assert "closed until" in said("restored", while_running=True)
