"""The sweep alone: with every signal lost each job still ends, one sweeper at a time, and no step stops the others."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs import sweep, transitions
from jobs.flow import Step
from jobs.models import Attempt, Job, JobMove, JobType
from jobs.states import JOB
from jobs.sweep import Sweeper
from pool.models import Pool
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[2]
LONGEST_SECONDS = 40
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """A simulator with the accounts and credentials that factories make; its address."""
    command = [sys.executable, "-m", "simulator", "--accounts", "2", "--sessions", "2", "--latency", "30ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.fixture
def pool(provider: str) -> Pool:
    upstream = {"base_url": provider, "headers": {"Authorization": "'Bearer ' + account.credential"}}
    return factories.make_pool(accounts=2, sessions=2, cooldown_ms=20, upstream=upstream)


@pytest.fixture
def job_type(pool: Pool) -> JobType:
    submit = {
        "path": "'/run'",
        "idempotent": True,
        "headers": {"Idempotency-Key": "dispatch_key"},
        "success": "response.status == 200 && response.body.status == 'done'",
        "failed": "response.status == 200 && response.body.status == 'failed'",
        "units": "response.body.units",
    }
    quick = {"attempts": 3, "first_ms": 50, "max_ms": 50}
    return factories.make_job_type(pool, upstream={"mode": "sync", "submit": submit}, retry=quick)


@pytest.fixture
def steps() -> Iterator[None]:
    """The verbs of the table as they were, afterwards."""
    yield
    sweep._VERBS.pop("test", None)


def sweep_until_all_have_ended() -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while Job.objects.exclude(state__in=JOB.terminal).exists():
        assert time.monotonic() < deadline, list(Job.objects.values_list("state", "due_at", "error"))
        sweep.sweep_calls()
        assert sweep.sweep()
        time.sleep(0.05)  # the upstream works; nothing else will wake us


def test_with_every_signal_lost_every_job_ends(job_type: JobType, provider: str) -> None:
    """No worker runs, so nobody hears a signal: whatever happens is the sweep's doing."""
    tenant = factories.make_tenant()
    soon = timezone.now() + timedelta(milliseconds=400)
    far = timezone.now() + timedelta(hours=1)
    plain = [factories.submit(tenant, job_type, payload={"latency_ms": 20}) for _ in range(6)]
    retried = factories.submit(tenant, job_type, payload={"sim": {"fail": 503, "times": 1}})
    refused = factories.submit(tenant, job_type, payload={"sim": {"fail": 422}})
    dropped = factories.submit(tenant, job_type, payload={"sim": {"accept_then_drop": True}})
    later = factories.submit(tenant, job_type, run_at=soon)
    expired = factories.submit(tenant, job_type, run_at=far, start_deadline_ms=300)
    cancelled = factories.submit(tenant, job_type, run_at=far)
    transitions.cancel(cancelled.pk)
    sweep_until_all_have_ended()
    states = dict(Job.objects.values_list("pk", "state"))
    assert {states[job.pk] for job in (*plain, retried, dropped, later)} == {"completed"}
    assert (states[refused.pk], states[expired.pk], states[cancelled.pk]) == ("failed", "failed", "cancelled")
    assert Attempt.objects.filter(job=retried).count() == 2
    assert Attempt.objects.get(job=dropped).sendings >= 2
    assert factories.money(tenant) == ((1_000 - 9) * factories.MICRO, 0)
    report = httpx.get(f"{provider}/report", trust_env=False).json()
    assert (report["overlaps"], report["double_executions"]) == (0, 0)


def test_what_a_lost_worker_left_behind_is_taken_up(job_type: JobType) -> None:
    tenant = factories.make_tenant()
    for _ in range(2):
        factories.submit(tenant, job_type)
    transitions.assign(job_type.pool_id)
    sent, unsent = Job.objects.order_by("id")
    factories.dispatch(sent)  # its intent is written, and its worker is gone
    db.let_time_pass(16)
    sweep_until_all_have_ended()
    sent.refresh_from_db()
    unsent.refresh_from_db()
    assert (sent.state, sent.crashes, sent.attempts) == ("completed", 1, 1)
    assert (unsent.state, unsent.crashes, unsent.attempts) == ("completed", 0, 2)
    assert factories.money(tenant) == (998 * factories.MICRO, 0)


def test_a_worker_that_gets_no_messages_goes_on_by_its_sweep(job_type: JobType) -> None:
    """It lives and sweeps, as a worker that has lost its broker: each step costs a sweep or two, and no more."""
    sweeper = Sweeper(with_calls=True)
    sweeper.start()
    try:
        job = factories.submit(factories.make_tenant(), job_type, payload={"latency_ms": 20})
        deadline = time.monotonic() + LONGEST_SECONDS
        while Job.objects.get().state != "completed":
            assert time.monotonic() < deadline
            time.sleep(0.05)  # its sweeps do the rest
    finally:
        sweeper.stop()
    moves = dict(JobMove.objects.filter(subject_id=job.pk).values_list("to_state", "at"))
    assert (moves["processing"] - moves["assigned"]).total_seconds() < 10, "about 2 s where nothing else runs"
    assert (moves["completed"] - moves["pending"]).total_seconds() < 20


def test_one_sweeps_at_a_time() -> None:
    job = factories.at("pending")
    with transaction.atomic():
        db.execute("SELECT pg_advisory_xact_lock(%s)", [sweep.LOCK])
        before = db.everything()
        assert in_another_connection(sweep.sweep).result(RACE_SECONDS) is False
        assert db.everything() == before
    assert sweep.sweep() is True
    job.refresh_from_db()
    assert job.state == "assigned"
    assert db.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def steps_of(verb: Callable[[], None], count: int) -> list[Step]:
    """A table of one step that does `verb` so often."""
    sweep._VERBS["test"] = verb
    return [Step("test", (), list, lambda: [()] * count)]  # type: ignore[arg-type]


def test_a_sweep_longer_than_the_server_lets_a_transaction_idle_keeps_its_lock(
    monkeypatch: pytest.MonkeyPatch, steps: None
) -> None:
    limited = connection.settings_dict["OPTIONS"]["options"] + " -c idle_in_transaction_session_timeout=2s"
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", limited)
    monkeypatch.setattr(sweep, "ASK_SECONDS", 0.1)
    held = []

    def take_long() -> None:
        time.sleep(0.7)
        held.append(db.value(LOCKS, [sweep.LOCK % 2**32]))

    monkeypatch.setattr(sweep, "FLOW", steps_of(take_long, 4))
    assert sweep.sweep() is True
    assert held == [1, 1, 1, 1]


def test_a_sweep_that_lost_its_lock_ends(monkeypatch: pytest.MonkeyPatch, steps: None) -> None:
    monkeypatch.setattr(sweep, "ASK_SECONDS", 0.0)
    done = []

    def cut_off() -> None:
        done.append(
            db.value(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s",
                [sweep.LOCK % 2**32],
            )
        )

    monkeypatch.setattr(sweep, "FLOW", steps_of(cut_off, 4))
    assert sweep.sweep() is True
    assert done == [True], "another may sweep by now"


@pytest.fixture
def short_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that a sweep loses by a step of a second, and not by what is merely slow on this machine."""
    limited = connection.settings_dict["OPTIONS"]["options"] + " -c idle_in_transaction_session_timeout=1s"
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", limited)
    monkeypatch.setattr(sweep, "ASK_SECONDS", 0.05)


@pytest.mark.usefixtures("short_lock", "steps")
def test_a_slow_step_delays_the_others_and_never_excludes_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each sweep loses its lock by the first of two pools; the next goes on with the second, and with what comes later."""
    done: list[Any] = []

    def take(pool_id: int) -> None:
        done.append(pool_id)
        if pool_id == 1:
            wait_until(lambda: not db.value(LOCKS, [sweep.LOCK % 2**32]))

    sweep._VERBS["test"] = take
    table = [Step("test", (), list, lambda: [(1,), (2,)]), Step("test", (), list, lambda: [(3,)])]
    monkeypatch.setattr(sweep, "FLOW", table)
    for _ in range(3):
        assert sweep.sweep() is True
    assert done == [1, 2, 3, 1, 1], "what took long comes last; the sweep that it ended was complete"
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert all("lost its lock" in record.message for record in caplog.records), "nothing is said of the database"


def test_a_process_that_is_to_end_begins_nothing_more(monkeypatch: pytest.MonkeyPatch, steps: None) -> None:
    """As when the last worker stops while a job waits: nobody might send what its sweep would assign."""
    job = factories.at("pending")
    sweeper = Sweeper()
    stopping = steps_of(sweeper.begin_to_stop, 1)
    monkeypatch.setattr(sweep, "FLOW", (*stopping, *sweep.FLOW))
    assert sweep.sweep(sweeper._may_go_on) is True
    job.refresh_from_db()
    assert job.state == "pending"
    assert sweep.sweep() is True
    job.refresh_from_db()
    assert job.state == "assigned"


def test_a_step_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The limits of one tenant make no sense, so its promotion fails; another pool's goes on, and so do later steps."""
    broken, sound = factories.make_job_type(), factories.make_job_type()
    tenant = factories.make_tenant()
    far = timezone.now() + timedelta(hours=1)
    stuck, going = factories.submit(tenant, broken, run_at=far), factories.submit(tenant, sound, run_at=far)
    tenant.pools = {broken.pool.name: {"window": "many"}}
    tenant.save(update_fields=["pools"])
    db.let_time_pass(3_601)
    assert sweep.sweep() is True
    stuck.refresh_from_db()
    going.refresh_from_db()
    assert (stuck.state, stuck.due_at, stuck.turn) == ("pending", None, None)
    assert going.state == "assigned"
    assert [record.message for record in caplog.records] == [f"promote of {tenant.pk} failed; again by a later sweep"]


def test_work_that_was_just_done_by_a_signal_is_left_to_it(job_type: JobType) -> None:
    """Whoever was woken gets a moment before the sweep does the same."""

    def swept(verb: Callable[[], object]) -> None:
        """Not a moment after what was done before it, however long that is ago on a slow machine."""
        db.let_time_pass(-60)
        verb()
        db.let_time_pass(60)
        job.refresh_from_db()

    job = factories.at("assigned", job_type)
    swept(sweep.sweep_calls)
    assert job.state == "assigned"
    factories.learn(factories.dispatch(job), factories.SUCCESS)
    swept(sweep.sweep)
    assert job.state == "processing"
    db.let_time_pass(1)
    sweep.sweep()
    job.refresh_from_db()
    assert job.state == "completed"


def test_a_sign_of_life_that_cannot_be_given_does_not_end_the_sweeps(
    tmp_path: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SWEEP_SECONDS, settings.ALIVE_FILE = 0.05, str(tmp_path / "not yet" / "alive")
    sweeper = Sweeper()
    sweeper.start()
    try:
        wait_until(lambda: len(caplog.records) > 1)
        (tmp_path / "not yet").mkdir()
        wait_until((tmp_path / "not yet" / "alive").exists)
    finally:
        sweeper.stop()
    assert {record.getMessage() for record in caplog.records} == {"sweep failed; again in 0.05 s"}


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
