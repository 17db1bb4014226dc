"""The database as the tests use it: raw SQL, races between two connections, time that passes, and what changed."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import pgtrigger
import pytest
from django.db import DatabaseError, connection, transaction

T = TypeVar("T")
BLOCKED_SECONDS = 10
RACE_SECONDS = 20  # longest wait for what another connection does
TEST_SECONDS = 40  # most that a test takes which counts by days

# Those that wait for us, or for one of these: not whoever else waits for a moment, as for a page of a table that grows.
# Not pg_stat_activity, which within a transaction goes on saying what it said first.
WAITING = """
WITH RECURSIVE waits AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS blockers FROM (SELECT DISTINCT pid FROM pg_locks WHERE NOT granted) waiting
), behind_us AS (
    SELECT pid FROM waits WHERE pg_backend_pid() = ANY (blockers)
    UNION SELECT w.pid FROM waits w JOIN behind_us b ON b.pid = ANY (w.blockers)
)
SELECT pid FROM behind_us ORDER BY pid"""

# All that a verb of a job may touch. The finish tag of a line and the clock of a pool are part of the order.
TABLES = (
    "jobs_job",
    "jobs_jobmove",
    "jobs_attempt",
    "jobs_evidence",
    "jobs_latecompletion",
    "jobs_line",
    "jobs_redrive",
    "pool_pool",
    "pool_resource",
    "pool_resourcemove",
    "pool_poolhealth",
    "pool_accounthealth",
    "credits_balance",
    "credits_hold",
    "credits_holdreview",
    "credits_lot",
    "credits_holdlot",
    "credits_transfer",
    "webhooks_event",
)


def in_another_connection(verb: Callable[[], T]) -> Future[T]:
    """Starts the verb on a thread of its own, and so on a connection of its own, given back before its result is told."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            try:
                result = verb()
            finally:
                connection.close()
        except Exception as error:  # noqa: BLE001  handed to whoever asks for the result
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return future


def wait_until_blocked_by_us(others: int = 1) -> None:
    """Returns when Postgres shows so many sessions waiting for this one."""
    deadline = time.monotonic() + BLOCKED_SECONDS
    while time.monotonic() < deadline:
        blocked = value(
            "SELECT count(DISTINCT pid) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        if blocked >= others:
            return
    raise AssertionError(f"no {others} sessions were blocked within {BLOCKED_SECONDS} s")


def execute(sql: str, parameters: Any = ()) -> int:
    """Runs one statement; how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def rows(sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def value(sql: str, parameters: Any = ()) -> Any:
    return rows(sql, parameters)[0][0]


@contextmanager
def refused(match: str) -> Iterator[None]:
    """The database refuses what is done inside, with this message; nothing of it stays."""
    with pytest.raises(DatabaseError, match=match), transaction.atomic():
        yield


def everything() -> dict[str, list[str]]:
    """Every row that a verb may touch, as text: equal before and after means nothing was changed."""
    return {table: [row[0] for row in rows(f"SELECT t::text FROM {table} t ORDER BY t::text")] for table in TABLES}


def let_holds_age(seconds: float) -> None:
    """Moves the times of holds and their reviews back, also of those that are closed, which no verb could."""
    with pgtrigger.ignore():
        execute(
            """UPDATE credits_hold SET created_at = created_at - make_interval(secs => %s),
                      review_at = review_at - make_interval(secs => %s)""",
            [seconds, seconds],
        )
    execute("UPDATE credits_holdreview SET due_at = due_at - make_interval(secs => %s)", [seconds])


def until_waiting(callers: int) -> list[int]:
    """The sessions that wait for this one, or behind one that does, once they are so many. Who is first is not said."""
    deadline = time.monotonic() + RACE_SECONDS
    while len(found := rows(WAITING)) < callers:
        assert time.monotonic() < deadline, found
    return [pid for (pid,) in found]


def wait_for_a_day_that_lasts() -> None:
    """Lets midnight (UTC) pass first where it is near: what is counted by days or months begins anew there."""
    left = 86_400 - time.time() % 86_400
    if left < TEST_SECONDS:
        time.sleep(left + 1)


def let_time_pass(seconds: float) -> None:
    """Moves what was written before, and what is due later, back by `seconds`: as if nobody had come for so long."""
    accounts = ("pool_upstreamaccount", "pool_poolhealth", "pool_accounthealth")
    for table in ("jobs_job", "jobs_attempt", "jobs_redrive", "pool_resource", *accounts):
        columns = rows(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name = %s AND data_type = 'timestamp with time zone'",
            [table],
        )
        shifts = ", ".join(f'"{name}" = "{name}" - make_interval(secs => %(seconds)s)' for (name,) in columns)
        execute(f"UPDATE {table} SET {shifts}", {"seconds": seconds})
