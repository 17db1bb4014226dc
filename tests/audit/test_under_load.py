"""The audit since its checkpoint while jobs run: no snapshot of it may look like a breach, and it remembers what is true."""

import threading
import time

import pytest

from broker_project.audit import audit_and_remember
from credits import ledger
from tests.db import RACE_SECONDS, execute, in_another_connection, rows
from tests.factories import MICRO, at, make_job_type, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS = 3
SECONDS = 4.0


def _write_until(stop: threading.Event) -> int:
    """At least one of each end, however slow the machine is."""
    tenant, job_type, made = make_tenant(), make_job_type(), 0
    while not made or not stop.is_set():
        for state in ("completed", "failed", "cancelled"):
            job = at(state, job_type, tenant)
            if state == "completed":
                ledger.refund(job.id, 1, MICRO, f"ticket {job.id}")
            made += 1
    return made


def test_runs_between_the_writers_are_clean_and_remember_what_the_whole_one_would() -> None:
    stop = threading.Event()
    audit_and_remember()
    writing = [in_another_connection(lambda: _write_until(stop)) for _ in range(WRITERS)]
    until, runs = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < until or runs < 2:
            run = audit_and_remember(since_checkpoint=True)
            assert {name: result.rows for name, result in run.results.items() if result.count} == {}
            assert run.since is not None
            runs += run.moved
    finally:
        stop.set()
        made = [writer.result(RACE_SECONDS) for writer in writing]
    assert min(made) >= 3
    assert audit_and_remember(since_checkpoint=True).since is not None
    figures = "SELECT name, subject_id, figure FROM broker_project_auditfigure WHERE name <> 'at' ORDER BY 1, 2"
    kept = rows(figures)
    execute("DELETE FROM broker_project_auditfigure")
    assert audit_and_remember().moved
    assert rows(figures) == kept
