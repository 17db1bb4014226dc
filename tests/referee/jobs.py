"""J1-J10, I2, I3, I8 and I10: jobs are kept, once, on legal ways, for the right money, and everything is given back."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.referee.evidence import TERMINAL, Evidence, Row, Rule

MICRO = 1_000_000
IN_PROGRESS = 409  # another request with the same key was being served: it says nothing of that one
# The moves that are legal, written down here a second time.
MOVES = {
    "": {"pending"},
    "pending": {"assigned", "failed", "cancelled"},
    "assigned": {"processing", "pending", "cancelled"},
    "processing": {"completed", "failed", "cancelled", "pending"},
    "failed": {"pending"},
    "cancelled": {"pending"},
    "completed": set(),
}
ENDS = ", ".join(f"'{state}'" for state in TERMINAL)
BY_UNITS = re.compile(r"outcome\.units(?:\s*\*\s*(\d+(?:\.\d+)?))?")


def no_acknowledged_job_is_lost(evidence: Evidence) -> list[Any]:
    """A job that a submit was answered with exists, and is this tenant's by this key."""
    lost = []
    for job, line in evidence.acknowledged.items():
        row = evidence.jobs.get(job)
        if row is None or (row["tenant"], row["key"]) != (line["tenant"], line["key"]):
            lost.append({"job": job, "tenant": line["tenant"], "key": line["key"], "found": row and dict(row)})
    return lost


def no_job_is_unasked_for(evidence: Evidence) -> list[Any]:
    """A job of a tenant that keeps a log was asked for by a submit with its key."""
    logging = {tenant for tenant, _ in evidence.by_key}
    return [
        {"job": job, "tenant": row["tenant"], "key": row["key"]}
        for job, row in evidence.jobs.items()
        if row["tenant"] in logging and (row["tenant"], row["key"]) not in evidence.by_key
    ]


def one_key_makes_one_job(evidence: Evidence) -> list[Any]:
    """All submits with one key are answered with one job, and the database has no second one of that key."""
    answered: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (tenant, key), lines in evidence.by_key.items():
        answered[tenant, key] |= {line["job"] for line in lines if line["status"] in (200, 202)}
    stored = Counter((row["tenant"], row["key"]) for row in evidence.jobs.values())
    twice = [{"key": key, "answered": sorted(jobs)} for key, jobs in answered.items() if len(jobs) > 1]
    return twice + [{"key": key, "stored": number} for key, number in stored.items() if number > 1]


def a_refused_submit_made_nothing(evidence: Evidence) -> list[Any]:
    """Where each submit with a key was refused (4xx), there is no job of it; a cut or a 5xx says nothing."""
    stored = {(row["tenant"], row["key"]): job for job, row in evidence.jobs.items()}
    return [
        {"key": key, "job": stored[key]}
        for key, lines in evidence.by_key.items()
        if key in stored and all(_is_refusal(line["status"]) for line in lines)
    ]


def every_hold_has_its_job(evidence: Evidence) -> list[Row]:
    """Nothing is held for a job that does not exist."""
    return evidence.rows("""
        SELECT h.id, h.job_id::text AS job, h.status FROM credits_hold h
        WHERE NOT EXISTS (SELECT FROM jobs_job j WHERE j.id = h.job_id)""")


def histories_are_legal_ways(evidence: Evidence) -> list[Any]:
    """The moves of a job are a way through the allowed states from its first to the one that it has; no end is left but
    by a replay (I8).
    """
    ways: dict[str, list[str]] = defaultdict(list)
    wrong = []
    for move in evidence.rows("SELECT subject_id::text AS job, from_state, to_state FROM jobs_jobmove ORDER BY id"):
        way = ways[move["job"]]
        stood = way[-1] if way else ""
        if move["from_state"] != stood or move["to_state"] not in MOVES.get(stood, ()):
            wrong.append({"stood": stood, **move})
        way.append(move["to_state"])
    for job, row in evidence.jobs.items():
        if not ways[job] or ways[job][-1] != row["state"]:
            wrong.append({"job": job, "state": row["state"], "way": ways[job]})
    return wrong


def each_end_is_told_once(evidence: Evidence) -> list[Row]:
    """Each run that ended has one event of its end, and no other run has one (I9)."""
    return evidence.rows(f"""
        WITH ended AS (
            SELECT subject_id AS job_id, row_number() OVER (PARTITION BY subject_id ORDER BY id) AS run, to_state
            FROM jobs_jobmove WHERE to_state IN ({ENDS})),
        told AS (
            SELECT job_id, job_run AS run, count(*) AS events, min(type) AS type FROM webhooks_event
            WHERE type IN ('job.completed', 'job.failed', 'job.cancelled') GROUP BY job_id, job_run)
        SELECT coalesce(e.job_id, t.job_id)::text AS job, coalesce(e.run, t.run) AS run, e.to_state, t.events, t.type
        FROM ended e FULL JOIN told t ON t.job_id = e.job_id AND t.run = e.run
        WHERE t.events IS DISTINCT FROM 1 OR t.type IS DISTINCT FROM 'job.' || e.to_state""")


def what_is_held_is_held_for_the_living(evidence: Evidence) -> list[Row]:
    """A job that has ended has no open hold, one that has not has exactly one, of its run (I5)."""
    return evidence.rows(f"""
        SELECT j.id::text AS job, j.state, j.run, count(h.id) AS open, min(h.run) AS of_run
        FROM jobs_job j LEFT JOIN credits_hold h ON h.job_id = j.id AND h.attempt = 0 AND h.status = 'open'
        WHERE j.price > 0 GROUP BY j.id, j.state, j.run
        HAVING count(h.id) <> CASE WHEN j.state IN ({ENDS}) THEN 0 ELSE 1 END OR min(h.run) <> j.run""")


def each_run_is_closed_once(evidence: Evidence) -> list[Row]:
    """Each run that ended has one hold that is closed, charged by at most one entry, of what it captured (I6)."""
    return evidence.rows(f"""
        WITH runs AS (SELECT subject_id AS job_id, count(*) AS ended FROM jobs_jobmove
                      WHERE to_state IN ({ENDS}) GROUP BY subject_id),
        holds AS (SELECT h.job_id, count(*) AS closed, sum(coalesce(h.captured, 0)) AS captured,
                         sum(coalesce(s.entries, 0)) AS entries, sum(coalesce(s.amount, 0)) AS amount,
                         count(*) FILTER (WHERE h.captured > 0) AS charges
                  FROM credits_hold h
                  LEFT JOIN (SELECT hold_id, count(*) AS entries, sum(amount) AS amount FROM credits_transfer
                             WHERE code = 'settle' GROUP BY hold_id) s ON s.hold_id = h.id
                  WHERE h.attempt = 0 AND h.status <> 'open' GROUP BY h.job_id)
        SELECT j.id::text AS job, r.ended, h.closed, h.captured, h.entries, h.amount
        FROM jobs_job j JOIN runs r ON r.job_id = j.id LEFT JOIN holds h ON h.job_id = j.id
        WHERE j.price > 0 AND (h.closed IS DISTINCT FROM r.ended OR h.entries <> h.charges OR h.amount <> h.captured)""")


def charged_is_what_was_delivered(evidence: Evidence) -> list[Any]:
    """A job is charged if and only if it completed, upon work that the upstream's book has as delivered, at the price of
    what was delivered; a flagged charge, and what an operator declared, need not be that price.
    """
    wrong = []
    declared = {
        row["job"]
        for row in evidence.rows("""
        SELECT a.job_id::text AS job FROM jobs_evidence e JOIN jobs_attempt a ON a.id = e.attempt_id
        WHERE e.kind = 'operator'""")
    }
    for job, row in evidence.jobs.items():
        delivered = [e for e in evidence.executions_of.get(job, ()) if e["outcome"] in ("done", "partial")]
        if row["state"] != "completed":
            if row["charged"]:
                wrong.append({"job": job, "state": row["state"], "charged": row["charged"]})
        elif not delivered and job not in declared:
            wrong.append({"job": job, "charged": row["charged"], "delivered": "nothing"})
        elif delivered and not row["flagged"] and row["charged"] not in (prices := _prices(row, delivered)):
            wrong.append({"job": job, "charged": row["charged"], "prices": sorted(prices)})
    return wrong


def charged_is_within_what_was_held(evidence: Evidence) -> list[Row]:
    """A completed job is charged what its hold captured, and no hold captured more than it held."""
    return evidence.rows("""
        SELECT j.id::text AS job, j.charged, h.captured, h.amount FROM jobs_job j
        LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
        WHERE (j.state = 'completed' AND j.charged <> coalesce(h.captured, 0)) OR h.captured > h.amount""")


def refunds_are_within_the_charge(evidence: Evidence) -> list[Row]:
    """No more is given back of a charge than it was."""
    return evidence.rows("""
        SELECT t.id, t.amount, sum(r.amount) AS refunded FROM credits_transfer t
        JOIN credits_transfer r ON r.reverses_id = t.id GROUP BY t.id, t.amount HAVING sum(r.amount) > t.amount""")


def what_was_cancelled_in_time_was_never_sent(evidence: Evidence) -> list[Any]:
    """A job that was cancelled before it was sent costs nothing, and the upstream never heard of it."""
    sent = {row["job"] for row in evidence.attempts.values() if row["called"] is not None}
    heard = {line["key"].split(".")[1] for line in evidence.received if line["key"].startswith("job.")}
    return [
        {"job": job, "charged": row["charged"], "heard of": job in heard}
        for job, row in evidence.jobs.items()
        if row["state"] == "cancelled" and job not in sent and (row["charged"] or job in heard)
    ]


def everything_has_come_to_its_end(evidence: Evidence) -> list[Row]:
    """After the drain no job waits or runs, and no attempt is open or has consequences that were not drawn (I10)."""
    return evidence.rows(f"""
        SELECT 'job ' || id AS what, state FROM jobs_job WHERE state NOT IN ({ENDS})
        UNION ALL SELECT 'attempt ' || id, phase FROM jobs_attempt WHERE ended_at IS NULL OR finished_at IS NULL""")


def balances_are_what_was_booked(evidence: Evidence) -> list[Row]:
    """What an account has and holds is the sum of its entries and of its open holds (I3)."""
    return evidence.rows("""
        SELECT b.account_id, b.posted, coalesce(e.posted, 0) AS booked, b.held, coalesce(h.held, 0) AS open
        FROM credits_balance b
        LEFT JOIN (SELECT account_id, sum(amount) AS posted FROM (
                       SELECT credit_id AS account_id, amount FROM credits_transfer
                       UNION ALL SELECT debit_id, -amount FROM credits_transfer) t GROUP BY account_id) e
               ON e.account_id = b.account_id
        LEFT JOIN (SELECT account_id, sum(amount) AS held FROM credits_hold WHERE status = 'open' GROUP BY account_id) h
               ON h.account_id = b.account_id
        WHERE b.posted <> coalesce(e.posted, 0) OR b.held <> coalesce(h.held, 0)""")


def _is_refusal(status: int | None) -> bool:
    return status is not None and 400 <= status < 500 and status != IN_PROGRESS


def _prices(job: Row, delivered: Sequence[Any]) -> set[int]:
    """What this job may have cost, in micro-credits, by one of these executions; by units where its type says so."""
    if not job["price"] or not job["settle"]:
        return {job["price"]}
    by_units = BY_UNITS.fullmatch(job["settle"].strip())
    if by_units is None:  # an expression that the referee cannot read: the hold bounds it
        return {job["charged"]}
    each = float(by_units[1] or 1) * MICRO
    return {min(job["price"], math.ceil(round(execution["billed"] * each, 6))) for execution in delivered}


RULES = (
    Rule("J1", no_acknowledged_job_is_lost),
    Rule("J2", no_job_is_unasked_for),
    Rule("J3", one_key_makes_one_job),
    Rule("J4", a_refused_submit_made_nothing),
    Rule("J4", every_hold_has_its_job),
    Rule("J5", histories_are_legal_ways),
    Rule("J5", each_end_is_told_once),
    Rule("J6", what_is_held_is_held_for_the_living),
    Rule("I6", each_run_is_closed_once),
    Rule("J7", charged_is_what_was_delivered),
    Rule("J8", charged_is_within_what_was_held),
    Rule("J9", refunds_are_within_the_charge),
    Rule("J10", what_was_cancelled_in_time_was_never_sent),
    Rule("I10", everything_has_come_to_its_end),
    Rule("I3", balances_are_what_was_booked),
)
