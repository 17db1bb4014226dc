"""Whose turn: promotion gives turns to a tenant's next jobs, as far as window and max_running allow."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from jobs.models import Job
from jobs.queries import line
from jobs.signals import job_moved
from statemachine.crashpoints import crashpoint
from statemachine.machine import Moved
from statemachine.sql import Row, fetch


def give(pool_id: int, tenant_ids: Sequence[int]) -> int:
    """Gives turns to the next jobs of these tenants, whose wallets the caller has locked. Returns how many."""
    crashpoint("promote.locked")
    rows = line.give_turns(pool_id, tenant_ids)
    crashpoint("promote.given", rows)
    announce("promote", rows)
    return len(rows)


def stand_in_line(job_ids: Sequence[UUID]) -> int:
    """Jobs whose time has come wait for a turn like any other. Returns how many.

    Locks the jobs in id order; a second caller finds them in line.
    """
    return _back_in_line(job_ids, "due_at <= clock_timestamp()")


def stand_in_line_again(job_ids: Sequence[UUID]) -> int:
    """The same for jobs that an upstream account can pay for by now."""
    return _back_in_line(job_ids, "unaffordable")


def _back_in_line(job_ids: Sequence[UUID], ready: str) -> int:
    rows = fetch(
        f"""
        WITH ready AS (
            SELECT id FROM jobs_job WHERE id = ANY(%s) AND state = 'pending' AND {ready}
            ORDER BY id FOR NO KEY UPDATE)
        UPDATE jobs_job j SET due_at = NULL, unaffordable = false,
               version = j.version + j.unaffordable::int
        FROM ready WHERE j.id = ready.id
        RETURNING j.id, j.pool_id, j.tenant_id, j.turn, j.due_at""",
        [list(job_ids)],
    )
    crashpoint("come_due.stood", rows)
    announce("come_due", rows)
    return len(rows)


def announce(verb: str, rows: Sequence[Row]) -> None:
    """A turn or a place in line is no move of the machine, but wakes the same receivers."""
    if rows:
        moved = [Moved(row["id"], "pending", row) for row in rows]
        transaction.on_commit(partial(job_moved.send_robust, sender=Job, verb=verb, moved=moved), robust=True)
