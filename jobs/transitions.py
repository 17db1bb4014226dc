"""What each arrow means: one function per arrow, one transaction each. With `states.py` and `flow.py`, the life of a job.

Every function takes a set of ids, does what still stands to be done, and leaves the rest alone: a second caller moves
nothing. A set that fails is taken row by row; what fails alone is looked at later and holds up nobody. The lock order is
job → attempt → health of a pool → resource → pool → upstream account → balance → hold, many of a kind by id.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from credits import ledger
from jobs import affording, closing, fetching, health, journal, replays, restoring, turns
from jobs.alone import row_by_row
from jobs.believing import may_be_doubted, undeceived
from jobs.entering import enter
from jobs.findings import Finding, one_of_each
from jobs.flight import Flight
from jobs.intents import intend
from jobs.models import Job
from jobs.outage import DATABASE_AWAY
from jobs.queries import ask_budget, attempts, claim, endings, entering, flights, late, postponing, suspicions
from jobs.queries.suspicions import IS_SUSPECTED
from jobs.signals import announce_attempts, attempt_doubted, attempt_ended, cancel_wanted, completion_late
from jobs.states import JOB, UNKNOWN
from pool import transitions as sessions
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row, tell, telling

BATCH = claim.BATCH
logger = logging.getLogger(__name__)
REVIEW_SECONDS = 3600.0  # after so long a hold that is open is looked at; time alone never releases one


def submit(job: Job) -> Job:
    """∅ → PENDING: the job is stored and its price held; where its tenant has room it gets a turn at once.

    Inserts job and hold, then locks the tenant's balance, then counts and promotes: a second submit of the tenant waits
    at the balance. Raises IntegrityError when the idempotency key is taken, InsufficientCredits, BudgetExceeded or Paced
    when the price cannot be held; then nothing is stored.
    """
    told, stored = telling("submit", lock_timeout="2s"), entering.insertion(job)
    enter(job, told, stored, review_seconds=REVIEW_SECONDS, paced=True)
    entering.inserted(job)
    return job


def promote(pool_id: int, tenant_ids: Sequence[int]) -> int:
    """PENDING stays PENDING: the tenants' next jobs get turns, as far as window and max_running allow. Returns how many.

    Locks the balances in id order, then counts in a later statement (whose snapshot sees what the lock waited for), then
    takes jobs with SKIP LOCKED. A second caller waits at the balance and counts what the first gave.
    """
    return _promote(tenant_ids, pool_id)


def assign(pool_id: int) -> int:
    """PENDING → ASSIGNED: the next turns get free sessions, each with an open attempt and a lease. Returns how many.

    One statement; locks turns and sessions with SKIP LOCKED, then the pool row. A second caller takes the next ones.
    Where upstream accounts have a balance, or one job makes the statement fail, see `affording`.
    """
    try:
        rows = claim.claim(pool_id, settings.LEASE_SECONDS)
        if rows is None:
            rows = affording.assign(pool_id, settings.LEASE_SECONDS, REVIEW_SECONDS)
    except DATABASE_AWAY:
        raise
    except Exception:  # whatever the data of one job provoke
        logger.exception("assign of pool %s failed; its next jobs are taken one by one", pool_id)
        rows = affording.assign_one_by_one(pool_id, settings.LEASE_SECONDS, REVIEW_SECONDS)
    crashpoint("assign.claimed", rows)
    JOB.announce("assign", rows)
    return len(rows)


@row_by_row(0, postponing.lease_end)
def unassign(job_ids: Sequence[UUID], why: str = "worker_lost") -> int:
    """ASSIGNED → PENDING: nothing was sent and the lease has ended; the session is free, the job keeps its turn.

    One whose key lost commits may have sent goes on as sent and in doubt, since under the next key it might run twice. Locks
    jobs, attempts, sessions, last the balances of upstream accounts. A worker that dispatches at the same time waits at the
    job and finds it gone.
    """
    with transaction.atomic():
        endings.lock(job_ids)
        if resent := suspicions.to_be_resent(job_ids):
            restoring.take_for_sent(resent)
        moved = JOB.take(
            "unassign",
            [{"id": job_id} for job_id in job_ids],
            where="""EXISTS (SELECT 1 FROM jobs_attempt a WHERE a.job_id = t.id AND a.ended_at IS NULL
                             AND a.lease_until <= clock_timestamp())""",
            cause=why,
        )
        closing.give_back_to_accounts(_abandon([job.id for job in moved], why), why)
    return len(moved)


@row_by_row([], None)
def dispatch(job_ids: Sequence[UUID], holder: str) -> list[Flight]:
    """ASSIGNED → PROCESSING: the intent is committed; only then may the caller send what is returned.

    Locks jobs, attempts, sessions. A second caller finds the jobs processing and gets nothing to send.
    """
    with transaction.atomic():
        opened = flights.opened(intend(job_ids, holder))
        # An apply may have come in since the intent: what is sent is what was read, and that is what stays with the attempt.
        otherwise = [flight for flight in opened if not flight.declared_as_called]
        attempts.called([{"id": f.attempt_id, "called_as": f.row["called_as"]} for f in otherwise])
        return [replace(f, row={**f.row, "declared_as_called": True}) if f in otherwise else f for f in opened]


def learn(findings: Sequence[Finding]) -> None:
    """PROCESSING stays PROCESSING: what the upstream answered is kept; sessions known to be over are let go at once.

    Evidence is appended unfenced; ends, news and doubts name the fence, so a late writer changes nothing; a success that
    it brings is remembered, and `late.book` draws what it means. A callback has the fence that it finds. Locks the attempts
    by id, where a call failed the health of their pools (see `health.weigh`), sessions by id, then accounts that want to be
    asked less. The hand-off to the next job and the accounting of this one follow side by side.
    """
    with transaction.atomic():
        kept = attempts.append_evidence([finding.evidence() for finding in findings if finding.is_news])
        crashpoint("learn.noted")
        # The others are of attempts that a restore took away, and say nothing of whatever has their numbers by now.
        findings = one_of_each([f for f in findings if f.flight.attempt_id in kept or not f.is_news])
        # `end` locks by itself what ends and needs no look before.
        if not all(f.ends and not f.of_key and not may_be_doubted(f) for f in findings):
            fences = attempts.lock([finding.flight.attempt_id for finding in findings])
            findings = undeceived([finding.standing(fences) for finding in findings])
        findings, troubles = health.weigh(findings)
        ended = end([finding for finding in findings if finding.ends])
        fetching.owe(findings, ended)
        attempts.go_on([finding.going() for finding in findings if finding.goes_on])
        _doubt([finding for finding in findings if finding.doubts])
        attempts.cancel_asked([finding.named() for finding in findings if finding.kind == "cancel" and finding.taken])
        ask_budget.rest({f.flight.row["account_id"]: f.asks_rest_ms for f in findings if f.asks_rest_ms})
        crashpoint("learn.written")
        health.draw(troubles)
        # Last, since it may wait for another who brings the same: that one then waits for none of our locks.
        missed = [finding.late() for finding in findings if finding.proven and finding.flight.fenced not in ended]
        announce_attempts(completion_late, late.remember(missed))


@row_by_row(0, postponing.lease_end)
def doubt(job_ids: Sequence[UUID]) -> int:
    """PROCESSING stays PROCESSING: the worker that called was lost; what came of the call is unknown.

    Locks jobs, then attempts. A worker that comes back late and was not yet replaced has the fence, and is believed.
    """
    with transaction.atomic():
        endings.lock(job_ids)
        doubted = _doubt([Finding.worker_lost(flight) for flight in flights.lapsed(job_ids)])
        crashpoint("doubt.marked", doubted)
        endings.count_crashes([attempt["job_id"] for attempt in doubted])
    return len(doubted)


@row_by_row(0, postponing.finish)
def finish(job_ids: Sequence[UUID]) -> int:
    """PROCESSING → COMPLETED | FAILED | PENDING | CANCELLED: state, ledger and event of each job move together.

    Locks jobs by id, their attempts, where calls failed the health of their pools and sessions, then the tenants' balances,
    last those of upstream accounts. A second caller waits at the job and finds nothing unfinished.
    """
    with transaction.atomic():
        return closing.close(endings.ended(job_ids))


@row_by_row(0, postponing.turn)
def come_due(job_ids: Sequence[UUID]) -> int:
    """PENDING stays PENDING: run_at or a back-off has passed; the job stands in its tenant's line again.

    Locks the jobs in id order; a second caller finds them in line.
    """
    return turns.stand_in_line(job_ids)


@row_by_row(0, postponing.turn)
def afford(job_ids: Sequence[UUID]) -> int:
    """PENDING stays PENDING: an upstream account can pay for these jobs by now; they stand in line again.

    Locks the jobs in id order; a second caller finds them in line.
    """
    return turns.stand_in_line_again(job_ids)


@row_by_row(0, postponing.deadline)
def expire(job_ids: Sequence[UUID]) -> int:
    """PENDING → FAILED: its deadline for the first start passed, and it did not start as far as we know.

    Locks jobs, then balances; an assign at the same time has won, or skips the locked job.
    """
    with transaction.atomic():
        return closing.give_up(
            "expire",
            job_ids,
            code="expired",
            message="it did not start before its deadline",
            where=f"t.start_deadline <= clock_timestamp() AND t.started_at IS NULL AND NOT {IS_SUSPECTED}",
        )


def cancel(job_id: UUID) -> bool:
    """PENDING, ASSIGNED → CANCELLED: the upstream was not called; all is given back. True when it was cancelled now.

    A processing job only gets `cancel_requested_at`, and its upstream is asked to stop: what that does decides. Locks
    job, attempt, session, balance, then that of the upstream account; whoever moves the job at the same time waits at it
    and finds it cancelled, or has won, and then it is cancelled as it stands.
    """
    with transaction.atomic():
        endings.lock([job_id])
        abandoned = _abandon([job_id], "cancelled")
        cancelled = closing.give_up("cancel", [job_id], code="cancelled", message="cancelled on request")
        if not cancelled and closing.request_cancel(job_id):
            announce_attempts(cancel_wanted, attempts.want_cancel(job_id))
        closing.give_back_to_accounts(abandoned, "cancelled")  # after the tenant's balance, as everywhere
        return bool(cancelled)


def replay(job_id: UUID, seen: int | None = None) -> Job:
    """FAILED, CANCELLED → PENDING: a new run, held anew at the price of the first, at the end of its tenant's line.

    `seen`: only while the job has this version. Locks the job, then the tenant's balance, where it is held and counted; a
    second caller waits at the job and finds it pending. Raises NotReplayable (it has not failed, an attempt is
    unresolved, its type, tenant or a file is gone), VersionChanged, InsufficientCredits, BudgetExceeded; then nothing has
    changed.
    """
    row = {"id": job_id} if seen is None else {"id": job_id, "version": seen}
    with transaction.atomic():
        tell("replay", lock_timeout="2s")
        moved = JOB.take("replay", [row], match=list(row)[1:], columns=replays.NEW_RUN, where=replays.MAY_BEGIN)
        job = replays.begun(job_id, bool(moved), seen)
        replays.refer_again(job)
        enter(job, review_seconds=REVIEW_SECONDS)
    return job


def dismiss(job_ids: Sequence[UUID]) -> int:
    """FAILED stays FAILED: an operator put these dead letters aside. Locks the jobs; a second caller finds none."""
    return endings.dismiss(job_ids)


@row_by_row(0)
def _promote(tenant_ids: Sequence[int], pool_id: int) -> int:
    with transaction.atomic():
        ledger.lock_wallets(tenant_ids)
        return turns.give(pool_id, tenant_ids)


def _abandon(job_ids: Sequence[UUID], why: str) -> list[Row]:
    """Ends attempts that were never sent and frees their sessions; rows are the attempts."""
    abandoned = attempts.abandon(job_ids, why)
    crashpoint("abandon.ended", abandoned)
    sessions.let_go("unreserve", [{"id": attempt["resource_id"], "fence": attempt["fence"]} for attempt in abandoned])
    return abandoned


def _doubt(findings: Sequence[Finding]) -> list[Row]:
    """Marks outcomes as unknown; rows are those of which it is unknown now, or still. Whoever polls looks by itself."""
    doubted = attempts.doubt([finding.doubt() for finding in findings])
    new = {
        f.flight.attempt_id: f.outcome.error_code for f in findings if not f.asked or f.flight.row["verdict"] != UNKNOWN
    }
    journal.doubted([attempt for attempt in doubted if attempt["id"] in new], new)
    sent = {finding.flight.attempt_id for finding in findings if not finding.asked}
    announce_attempts(attempt_doubted, [attempt for attempt in doubted if attempt["id"] in sent])
    return doubted


def end(findings: Sequence[Finding]) -> set[tuple[int, int]]:
    """Ends attempts and lets their sessions rest or go; a finding whose fence is gone ends nothing. The ended, with fences.

    Within the caller's transaction; locks attempts, then sessions, each by id.
    """
    by_fence = {finding.flight.fenced: finding for finding in findings}
    ended = attempts.end([finding.end() for finding in findings])
    crashpoint("end.ended", ended)
    resting: dict[int, list[Mapping[str, Any]]] = {}
    for finding in (by_fence[attempt["id"], attempt["fence"]] for attempt in ended):
        resting.setdefault(finding.rest_ms(), []).append(finding.session())
    if len(resting) > 1:
        sessions.lock([finding.flight.resource_id for finding in findings])
    for rest_ms, rows in resting.items():
        sessions.let_go("cool" if rest_ms else "free", rows, rest_ms)
    announce_attempts(attempt_ended, ended)
    return {(attempt["id"], attempt["fence"]) for attempt in ended}
