"""How a run of a job enters: its price is held and turns are given, in one message, which may be the whole transaction.

What one busy tenant waits for is the time from the update of its balance to the end of the commit. Sent as one message
the statements need no answer of ours in between (ADR 18).
"""

from contextlib import nullcontext
from typing import Any

from django.db import DatabaseError, connection, transaction

from credits import limits
from credits.errors import LedgerConflict
from jobs import telling, turns
from jobs.models import Job
from jobs.queries import entering
from statemachine.crashpoints import crashpoint
from statemachine.sql import fetch_together

Statement = tuple[str, list[Any]]


def enter(job: Job, *before: Statement, review_seconds: float, paced: bool = False) -> None:
    """Runs `before`, holds the price of this run and gives turns to the tenant's next jobs, all of it or nothing.

    Locks the tenant's balance, then counts and takes jobs with SKIP LOCKED; a second caller waits at the balance. Raises
    InsufficientCredits, BudgetExceeded, Paced, NoWallet, LedgerConflict, and what `before` raises.
    """
    # Within somebody's transaction a refusal leaves what was before it; by itself the message is one.
    part = transaction.atomic() if connection.in_atomic_block else nullcontext()
    price = job.price if job.tenant.billing == job.tenant.Billing.CREDITS else None
    terms = [job.pk, job.run, job.tenant_id, job.pool_id, price, review_seconds, paced, connection.in_atomic_block]
    try:
        with part:
            [row] = fetch_together(*before, (entering.ENTER, terms))
            crashpoint("enter.written", connection.in_atomic_block)  # else the message was the transaction
            if row["low"]:
                telling.credits_are_low(job.tenant, job)
    except DatabaseError as error:
        if _code(error) == entering.LITTLE_IS_LEFT:
            with transaction.atomic():  # now with somebody who tells it in the same transaction
                return enter(job, *before, review_seconds=review_seconds, paced=paced)
        meant = _meant(error, job)
        if meant is error:
            raise  # as its own cause it would lose the server's code, which says whether somebody else held it
        raise meant from error
    crashpoint("enter.unannounced")
    ids, turned = row["given"] or [], row["turns"] or []
    place = {"pool_id": job.pool_id, "tenant_id": job.tenant_id, "due_at": None}
    turns.announce("promote", [{"id": id_, "turn": turn, **place} for id_, turn in zip(ids, turned, strict=True)])
    return None


def _meant(error: DatabaseError, job: Job) -> Exception:
    if _code(error) == entering.REFUSED:
        return limits.refusal(job.tenant_id, str(error.__cause__.diag.message_primary), job.price)  # type: ignore[union-attr]
    if _code(error) == entering.HELD_BEFORE:
        return LedgerConflict(str(error))
    return error


def _code(error: DatabaseError) -> str:
    return str(getattr(error.__cause__, "pgcode", ""))
