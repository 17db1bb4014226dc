"""The audit since its checkpoint: what moves it, what it sees again, and that nothing slips past it."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import connection, transaction

from broker_project import checkpoint
from broker_project.audit import RULES, Run, audit_and_remember, breaches
from broker_project.checkpoint import GROWING
from credits import ledger
from jobs import transitions
from jobs.models import Job
from tests.db import RACE_SECONDS, execute, in_another_connection, rows, value
from tests.factories import MICRO, REJECTED, SUCCESS, at, end, make_job_type, make_pool, make_tenant, submit

pytestmark = pytest.mark.django_db(transaction=True)
NEWEST = "(SELECT max(id) FROM"
CHARGED = "P5.completed_job_is_charged_what_was_captured"


def since_checkpoint() -> Run:
    return audit_and_remember(since_checkpoint=True)


def found(run: Run) -> set[str]:
    return {name for name, result in run.results.items() if result.count}


def tamper(sql: str, *parameters: Any) -> None:
    """As a bug or a stray UPDATE could once a guard is gone."""
    with transaction.atomic():
        execute("SET LOCAL session_replication_role = replica")
        assert execute(sql, parameters) > 0


def figures() -> list[tuple[Any, ...]]:
    """What is remembered, but the time."""
    return rows("SELECT name, subject_id, figure FROM broker_project_auditfigure WHERE name <> 'at' ORDER BY 1, 2")


def test_the_first_is_over_all_and_the_next_begins_where_it_stood() -> None:
    at("completed")
    first, second = since_checkpoint(), since_checkpoint()
    assert (first.since, first.moved) == (None, True)
    assert second.since is not None
    assert second.since.marks["credits_transfer"] == value("SELECT max(id) FROM credits_transfer")
    assert list(first.results) == list(second.results) == list(RULES)


def test_nothing_of_it_outlives_its_transaction_for_the_next_may_have_another_session() -> None:
    for _ in range(2):
        since_checkpoint()
        assert rows("SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()") == []


@pytest.mark.tampers
def test_what_is_closed_and_left_alone_is_asked_by_the_whole_audit_alone() -> None:
    at("completed")
    since_checkpoint()
    tamper("UPDATE jobs_job SET charged = charged + 1")
    assert found(since_checkpoint()) == set()
    assert found(audit_and_remember()) == {CHARGED}


@pytest.mark.tampers
def test_a_breach_is_found_again_until_it_is_mended() -> None:
    since_checkpoint()
    job = at("completed")
    tamper("UPDATE jobs_job SET charged = charged + 1")
    for _ in range(2):
        run = since_checkpoint()
        assert (found(run), run.moved) == ({CHARGED}, False)
    at("completed")
    assert found(since_checkpoint()) == {CHARGED}
    tamper("UPDATE jobs_job SET charged = charged - 1 WHERE id = %s", job.id)
    run = since_checkpoint()
    assert (found(run), run.moved) == (set(), True)


@pytest.mark.parametrize("since", [False, True])
def test_a_transaction_that_commits_later_with_lower_ids_is_not_missed(
    someone_writes: Callable[[str], None], since: bool
) -> None:
    wallet, tenant = _wallet()
    audit_and_remember()
    someone_writes(
        f"""INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
            SELECT 'stray', 'tenant', {wallet}, id, 7, 'stray' FROM credits_account WHERE kind = 'revenue'"""
    )
    ledger.grant(tenant, MICRO, "with a higher id")
    assert value("SELECT max(id) FROM credits_transfer") > value("SELECT figure FROM broker_project_auditfigure"
        " WHERE name = 'credits_transfer' AND subject_id = 0")  # fmt: skip
    assert audit_and_remember(since_checkpoint=since, patience_seconds=0.1).moved
    someone_writes("COMMIT")
    assert found(since_checkpoint()) == {"P5.balance_equals_entries"}
    tamper("DELETE FROM credits_transfer WHERE op_key = 'stray'")


def test_a_long_transaction_holds_up_only_the_tables_it_wrote(someone_writes: Callable[[str], None]) -> None:
    _, tenant = _wallet()
    since_checkpoint()
    before = checkpoint.load()
    someone_writes(
        "INSERT INTO webhooks_event (tenant_id, type, job_run, job_version, body) VALUES (1, 'x', 1, 1, '{}')"
    )
    ledger.grant(tenant, MICRO, "meanwhile")
    assert audit_and_remember(since_checkpoint=True, patience_seconds=0.1).moved
    after = checkpoint.load()
    assert before is not None
    assert after is not None
    assert {table for table in GROWING if after.marks[table] > before.marks[table]} == {
        "credits_transfer",
        "credits_lot",
    }


def test_a_short_transaction_is_awaited(someone_writes: Callable[[str], None]) -> None:
    since_checkpoint()
    someone_writes(
        "INSERT INTO webhooks_event (tenant_id, type, job_run, job_version, body) VALUES (1, 'x', 1, 1, '{}')"
    )
    now = value("SELECT clock_timestamp()")
    running = in_another_connection(lambda: audit_and_remember(since_checkpoint=True, patience_seconds=20))
    _wait_until_writers_were_listed(now)
    someone_writes("COMMIT")
    assert running.result(timeout=20).moved
    after = checkpoint.load()
    assert after is not None
    assert after.marks["webhooks_event"] == value("SELECT max(id) FROM webhooks_event")


def test_what_is_beyond_a_mark_is_not_counted_twice(someone_writes: Callable[[str], None]) -> None:
    tenant, job_type = make_tenant(), make_job_type()
    at("completed", job_type, tenant)
    since_checkpoint()
    someone_writes("LOCK TABLE credits_transfer, jobs_attempt, pool_resourcemove IN ROW EXCLUSIVE MODE")
    at("completed", job_type, tenant)
    assert audit_and_remember(since_checkpoint=True, patience_seconds=0).moved
    someone_writes("COMMIT")
    assert found(since_checkpoint()) == set()


def test_one_who_only_reads_holds_up_nothing(someone_writes: Callable[[str], None]) -> None:
    at("completed")
    since_checkpoint()
    someone_writes("SELECT count(*) FROM credits_transfer, jobs_job")
    at("completed")
    assert audit_and_remember(since_checkpoint=True, patience_seconds=0).moved
    after = checkpoint.load()
    assert after is not None
    assert after.marks["credits_transfer"] == value("SELECT max(id) FROM credits_transfer")


def test_other_rules_ask_all() -> None:
    at("completed")
    since_checkpoint()
    fewer = {name: sql for name, sql in RULES.items() if name != CHARGED}
    assert audit_and_remember(fewer, since_checkpoint=True).since is None
    assert audit_and_remember(fewer, since_checkpoint=True).since is not None


def test_a_sequence_that_went_back_asks_all() -> None:
    at("completed")
    since_checkpoint()
    execute("UPDATE broker_project_auditfigure SET figure = figure + 1 WHERE name = 'webhooks_event'")
    assert since_checkpoint().since is None
    assert since_checkpoint().since is not None


def test_of_two_at_once_the_second_leaves_the_checkpoint_of_the_first() -> None:
    since_checkpoint()
    seen = checkpoint.load()
    assert seen is not None
    first, second = (checkpoint.Checkpoint(seen.marks, seen.rules, at) for at in (1, 2))
    assert checkpoint.move(seen, first, [])
    assert not checkpoint.move(seen, second, [])
    assert checkpoint.load() == first


def test_a_connection_that_only_reads_may_ask_all() -> None:
    execute("SET default_transaction_read_only = on")
    try:
        run = audit_and_remember()
    finally:
        execute("SET default_transaction_read_only = off")
    assert (breaches(run.results), run.moved, checkpoint.load()) == (0, False, None)


def test_what_is_remembered_is_what_the_whole_audit_would_remember() -> None:
    """Traffic of every kind with checkpoints in between; no step may look like a breach."""
    tenant, job_type = make_tenant(), make_job_type(make_pool(), idempotent=True)
    for turn in range(3):
        for step in _traffic(tenant, job_type, turn):
            assert found(since_checkpoint()) == set(), step
    assert since_checkpoint().since is not None
    kept = figures()
    assert {"posted", "captured", "last_attempt", "last_resourcemove"} <= {name for name, *_ in kept}
    execute("DELETE FROM broker_project_auditfigure")
    assert audit_and_remember().moved
    assert figures() == kept


@pytest.mark.tampers
@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        # Each needs what was remembered of the time before the checkpoint.
        ("P5.balance_equals_entries", "UPDATE credits_balance SET posted = posted - 1"),
        (
            "P5.budgets_count_every_charge",
            "UPDATE credits_balance SET day_charged = day_charged - 1 WHERE day_charged > 0",
        ),
        ("P5.owed_equals_entries", "UPDATE credits_balance SET owed = owed + 1"),
        ("P5.lot_parts_within_its_amount", "UPDATE credits_lot SET remaining = remaining + 1"),
        ("P5.ledgers_sum_to_zero", f"UPDATE credits_transfer SET debit_id = 0 WHERE id = {NEWEST} credits_transfer)"),
        (
            "P8.resource_moves_lead_to_its_state",
            f"DELETE FROM pool_resourcemove WHERE id = {NEWEST} pool_resourcemove) - 2",
        ),
        ("P9.fences_of_a_session_grow", f"UPDATE jobs_attempt SET fence = 1 WHERE id = {NEWEST} jobs_attempt)"),
    ],
)
def test_a_breach_with_what_was_before_the_checkpoint_is_found(rule: str, sql: str) -> None:
    tenant, job_type = make_tenant(), make_job_type()
    at("completed", job_type, tenant)
    since_checkpoint()
    at("completed", job_type, tenant)
    tamper(sql)
    run = since_checkpoint()
    assert run.since is not None
    assert rule in found(run)


def _wallet() -> tuple[int, int]:
    """(account, tenant)"""
    tenant = make_tenant()
    return ledger.open_wallet(tenant.pk), tenant.pk


def _wait_until_writers_were_listed(since: datetime) -> None:
    """A session that rests goes on showing what it asked last, so also a time is asked for."""
    until = time.monotonic() + RACE_SECONDS
    while time.monotonic() < until:
        if value(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE query LIKE '%%virtualtransaction%%' AND pid <> pg_backend_pid() AND query_start > %s",
            [since],
        ):
            return
    raise AssertionError("nobody asked who writes")


def _traffic(tenant: Any, job_type: Any, turn: int) -> Iterator[str]:
    waiting = submit(tenant, job_type)
    yield "submitted"
    transitions.assign(job_type.pool_id)
    yield "assigned"
    end(waiting, SUCCESS)
    yield "completed"
    ledger.refund(waiting.id, 1, MICRO, f"ticket {turn}")
    yield "refunded"
    failed = at("failed", job_type, tenant)
    yield "failed"
    transitions.replay(failed.id)
    yield "replayed"
    transitions.assign(job_type.pool_id)
    end(Job.objects.get(pk=failed.id), REJECTED)
    ledger.grant(tenant.pk, MICRO, f"gift {turn}", category="promo", priority=1)
    yield "failed again, and granted"
    at("cancelled", job_type, tenant)
    yield "cancelled"


@pytest.fixture
def someone_writes() -> Iterator[Callable[[str], None]]:
    """Statements in one transaction of another connection, which stays open until it is told to commit, or the end."""
    other = connection.copy("other")
    other.inc_thread_sharing()
    lock = threading.Lock()

    def write(sql: str) -> None:
        with lock:
            if sql == "COMMIT":
                other.commit()
                return
            other.set_autocommit(False)
            with other.cursor() as cursor:
                cursor.execute(sql)

    yield write
    other.rollback()
    other.close()
