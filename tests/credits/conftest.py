"""Wallets to test with, and what a race needs: a second connection, and knowing when it is blocked."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar
from uuid import UUID, uuid4

import pgtrigger
import pytest
from django.db import connection
from django.test import TransactionTestCase

from credits import ledger
from credits.ledger import HoldRequest

T = TypeVar("T")
TENANT_IDS = itertools.count(1)
BLOCKED_SECONDS = 10


@pytest.fixture(autouse=True, scope="session")
def _append_only_tables_are_emptied_between_tests() -> Iterator[None]:
    """Tests that commit end with TRUNCATE, which the ledger's own trigger refuses."""
    patch = pytest.MonkeyPatch()
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def flush_past_triggers(case: TransactionTestCase) -> None:
        with pgtrigger.ignore():
            flush(case)

    patch.setattr(TransactionTestCase, "_fixture_teardown", flush_past_triggers)
    yield
    patch.undo()


@pytest.fixture
def open_tenant() -> Callable[..., int]:
    """Makes a tenant with a wallet and this opening grant."""

    def open_(granted: int = 0, credit_limit: int = 0) -> int:
        tenant_id = next(TENANT_IDS)
        ledger.open_wallet(tenant_id, credit_limit)
        if granted:
            ledger.grant(tenant_id, granted, f"opening:{tenant_id}")
        return tenant_id

    return open_


def hold_one(tenant_id: int, amount: int, job_id: UUID | None = None, run: int = 0) -> UUID:
    job_id = job_id or uuid4()
    ledger.hold(tenant_id, [HoldRequest(job_id, run, amount)], review_seconds=3600)
    return job_id


def money(tenant_id: int) -> tuple[int, int]:
    """(posted, held)"""
    balance = ledger.balances(tenant_id)
    return balance.posted, balance.held


def in_another_connection(verb: Callable[[], T]) -> Future[T]:
    """Starts the verb on a thread of its own, and so on a connection of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(verb())
        except Exception as error:  # noqa: BLE001  handed to whoever asks for the result
            future.set_exception(error)
        finally:
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    return future


def wait_until_blocked_by_us(others: int = 1) -> None:
    """Returns when Postgres shows so many sessions waiting for this one."""
    deadline = time.monotonic() + BLOCKED_SECONDS
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(
                "SELECT count(DISTINCT pid) FROM pg_locks"
                " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            )
            if cursor.fetchone()[0] >= others:
                return
    raise AssertionError(f"no {others} sessions were blocked within {BLOCKED_SECONDS} s")
