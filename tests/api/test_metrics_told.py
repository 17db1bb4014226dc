"""What Prometheus is told, by one process and by several."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from broker_project.process import role
from jobs.api import metrics
from jobs.models import Job
from jobs.queries import flights, occupancy, server
from tests import db, factories
from tests.api.test_metrics import pool_of
from tests.jobs.health_world import HTTP_503, REFUSED, World

pytestmark = pytest.mark.django_db


def test_all_is_told_to_prometheus(client: Client) -> None:
    job = factories.at("processing")
    factories.learn(next(iter(_flights_of(job))), factories.CUT)
    db.let_time_pass(600)
    assert pool_of(job.type)["oldest_running_seconds"] > 600
    text = client.get("/metrics").content.decode()
    pool = f'pool="{job.pool.name}"'
    for name in (name for name, _, _ in metrics.OF_POOLS):
        assert f"\n{name}{{{pool}}} " in text
        assert f"\n# HELP {name} " in text
    assert all(f"{name}{{{pool}}} 1.0" in text for name in ("berth_utilisation_ratio", "berth_unknown_attempts"))
    for name in ("berth_oldest_transaction_seconds", "berth_oldest_snapshot_transactions"):
        assert f"\n{name} " in text
    assert "berth_database_connections{role=" in text
    assert "berth_database_checkout_seconds_bucket{" in text


def test_accounts_that_failed_and_pools_at_rest_are_told_to_prometheus(client: Client) -> None:
    world = World(accounts=3, name="video")
    world.run(0, HTTP_503)
    world.run(1, REFUSED)
    text = client.get("/metrics").content.decode()
    assert 'berth_account_open{account="acct-001",pool="video"} 0.0' in text
    assert 'berth_account_open{account="acct-002",pool="video"} 1.0' in text
    assert 'account="acct-003"' not in text
    assert 'berth_pool_open{pool="video"} 0.0' in text


@pytest.mark.django_db(transaction=True)
def test_the_oldest_open_transaction_is_seen() -> None:
    with closing(connection.copy()) as other:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id(), pg_sleep(0.5)")
        for _ in range(3):
            db.value("SELECT pg_current_xact_id()")
        seen, oldest = server.transactions(), server.oldest_transaction()
        assert {"role": role(), "state": "in_transaction", "connections": 1} in server.connections()
    assert oldest is not None
    assert 0.5 <= seen["oldest_seconds"] <= oldest["seconds"]
    assert seen["oldest_snapshot"] >= 3
    assert server.transactions()["oldest_seconds"] < 0.5


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_processes_that_share_a_folder_are_told_together(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Counters outlive their process, gauges do not."""
    code = "import django; django.setup(); from django.db import connection; connection.ensure_connection()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=settings.BASE_DIR,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
    )
    assert process.wait(30) == 0
    assert list(tmp_path.glob(f"gauge_liveall_{process.pid}.db"))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    text = client.get("/metrics").content.decode()
    assert 'berth_database_checkout_seconds_count{role="-c"} 1.0' in text
    assert f'pid="{process.pid}"' not in text
    assert "process_cpu_seconds_total" in text
    assert "berth_rows_read 1.0" in text


def _flights_of(job: Job) -> Any:
    return flights.opened([factories.attempt_of(job).pk])


def test_the_numbers_are_told_without_prepared_statements(settings: Any) -> None:
    settings.PREPARED_STATEMENTS = False
    factories.at("processing")
    assert occupancy.by_pool()
    assert server.transactions()
    assert "berth_rows_read 1.0" in Client().get("/metrics").content.decode()
