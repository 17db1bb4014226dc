"""One row that the database refuses to move holds up nobody else, at each step that takes a set."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from credits import ledger
from jobs import sweep, transitions
from jobs.models import Job, JobType
from tests import db, factories
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def update_refused(job_id: object, condition: str) -> Iterator[None]:
    """Inside, the database refuses every update of this one job that meets the condition (over OLD and NEW)."""
    body = f"IF NEW.id = '{job_id}' AND {condition} THEN RAISE EXCEPTION 'refused on purpose'; END IF; RETURN NULL;"
    db.execute(f"CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$")
    db.execute("CREATE TRIGGER poison AFTER UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION poison()")
    try:
        yield
    finally:
        db.execute("DROP FUNCTION poison() CASCADE")


def two(job_type: JobType, **request: object) -> list[Job]:
    """A job each of two tenants."""
    return [factories.submit(factories.make_tenant(), job_type, **request) for _ in range(2)]


def later(job_type: JobType) -> list[Job]:
    jobs = two(job_type, run_at=timezone.now() + timedelta(hours=1))
    db.let_time_pass(3_601)
    return jobs


def too_late(job_type: JobType) -> list[Job]:
    jobs = two(job_type, start_deadline_ms=1_000)
    db.let_time_pass(2)
    return jobs


def left_by_a_worker(job_type: JobType) -> list[Job]:
    jobs = two(job_type)
    transitions.assign(job_type.pool_id)
    db.let_time_pass(16)
    return jobs


@pytest.mark.parametrize(
    ("prepare", "refused", "moved"),
    [
        (later, "OLD.due_at IS NOT NULL AND NEW.due_at IS NULL", "state = 'assigned'"),
        (later, "OLD.turn IS NULL AND NEW.turn IS NOT NULL", "state = 'assigned'"),
        (two, "NEW.state = 'assigned'", "state = 'assigned'"),
        (too_late, "NEW.state = 'failed'", "state = 'failed'"),
        (left_by_a_worker, "NEW.state = 'pending'", "attempts = 2"),
    ],
    ids=["come_due", "promote", "assign", "expire", "unassign"],
)
def test_a_row_that_fails_holds_up_no_other_tenant(
    prepare: Callable[[JobType], list[Job]], refused: str, moved: str
) -> None:
    poisoned, other = prepare(factories.make_job_type(factories.make_pool(sessions=4)))
    with update_refused(poisoned.pk, refused):
        for _ in range(3):
            sweep.sweep()
        assert db.value(f"SELECT {moved} FROM jobs_job WHERE id = %s", [other.pk])


@pytest.mark.tampers
def test_an_event_that_is_there_already_holds_up_no_other_expiry() -> None:
    """The same without a trigger: what `test_finish.py` calls a poisoned job, at expire."""
    poisoned, other = too_late(factories.make_job_type(factories.make_pool(accepting=False)))
    Event.objects.create(tenant_id=poisoned.tenant_id, type="job.failed", job_id=poisoned.pk, job_run=1, body={})
    for _ in range(3):
        sweep.sweep()
    other.refresh_from_db()
    assert other.state == "failed"


def test_a_wallet_that_is_locked_for_long_holds_up_no_other_tenants_end() -> None:
    jobs = two(factories.make_job_type(factories.make_pool(sessions=2)))
    transitions.assign(jobs[0].pool_id)
    for job in jobs:
        factories.learn(factories.dispatch(job), factories.SUCCESS)
    locked, let_go = threading.Event(), threading.Event()

    def hold_on() -> None:
        with transaction.atomic():
            ledger.lock_wallets([jobs[0].tenant_id])
            locked.set()
            let_go.wait(db.RACE_SECONDS)

    holder = db.in_another_connection(hold_on)
    assert locked.wait(db.RACE_SECONDS)
    db.execute("SET lock_timeout = '300ms'")
    try:
        assert transitions.finish([job.pk for job in jobs]) == 1
    finally:
        db.execute("RESET lock_timeout")
        let_go.set()
        holder.result(db.RACE_SECONDS)
    for job in jobs:
        job.refresh_from_db()
    assert [job.state for job in jobs] == ["processing", "completed"]
