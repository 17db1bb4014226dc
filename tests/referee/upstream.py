"""U2-U5, I1, I2, I11 and I13: one session one job, within the upstream's own ceiling, and what it billed is booked."""

from collections import defaultdict
from typing import Any

from tests.referee.evidence import PROVEN, Evidence, Row, Rule

MICRO = 1_000_000

SESSION_MOVES = {
    "": {"available"},
    "available": {"reserved", "cooldown", "offline"},
    "reserved": {"available", "busy"},
    "busy": {"available", "cooldown"},
    "cooldown": {"available", "offline"},
    "offline": {"available"},
}


def the_ceiling_is_kept(evidence: Evidence) -> list[Any]:
    """At no instant of its own book an account runs more than the sessions it has (I1)."""
    sessions = {
        row["name"]: row["sessions"]
        for row in evidence.rows("""
        SELECT name, max(sessions) AS sessions FROM (
            SELECT u.name, count(r.id) AS sessions FROM pool_upstreamaccount u
            LEFT JOIN pool_resource r ON r.account_id = u.id GROUP BY u.id, u.name) s GROUP BY name""")
    }
    changes: dict[tuple[int, str], list[tuple[float, int, str]]] = defaultdict(list)
    for execution in evidence.executions:
        if execution["start"] is not None:
            account = execution["book"], execution["account"]
            changes[account].append((execution["start"], 1, execution["id"]))
            if execution["end"] is not None:
                changes[account].append((execution["end"], -1, execution["id"]))
    broken = []
    for (book, name), moments in changes.items():
        running = 0
        for at, change, execution_id in sorted(moments):  # an end comes before a start of the same instant
            running += change
            if change > 0 and running > sessions.get(name, 0):
                broken.append({"book": book, "account": name, "at": at, "running": running, "with": execution_id})
    return broken


def nothing_was_sent_beyond_the_ceiling(evidence: Evidence) -> list[Any]:
    """No request was refused because its account was full already: that we sent it was the mistake."""
    return [line for line in evidence.received if line["verdict"] == "over_limit"]


def the_books_agree(evidence: Evidence) -> list[Row]:
    """No reading of an upstream account was off by more than what was in flight: nobody but us used it."""
    return evidence.rows("SELECT account_id, key, said, posted, held, drift FROM credits_reading WHERE drift <> 0")


def what_was_billed_is_booked(evidence: Evidence) -> list[Any]:
    """Work that the upstream billed is an attempt of ours with its consequences drawn; where its account was tracked by
    then it was charged to the account, and a success at what it was billed (I13).
    """
    closed = {
        row["dispatch_key"]: row
        for row in evidence.rows("""
        SELECT a.dispatch_key, a.finished_at, h.status, h.captured + coalesce(h.overrun, 0) AS spent, a.usage_problem,
               p.tracks_credits AND a.opened_at > u.tracked_since AS tracked
        FROM jobs_attempt a JOIN pool_upstreamaccount u ON u.id = a.account_id JOIN pool_pool p ON p.id = u.pool_id
        LEFT JOIN credits_hold h ON h.job_id = a.job_id AND h.run = a.run AND h.attempt = a.number""")
    }
    wrong = []
    for execution in evidence.executions:
        row, attempt = closed.get(execution["key"]), evidence.attempts.get(execution["key"])
        if not execution["billed"] or row is None or attempt is None:
            continue
        told = attempt["verdict"] in PROVEN and not row["usage_problem"]
        unpaid = row["tracked"] and (
            row["status"] != "captured" or (told and row["spent"] != round(execution["billed"] * MICRO))
        )
        if row["finished_at"] is None or unpaid or row["status"] not in (None, "captured"):
            booked = {"hold": row["status"], "booked": row["spent"]}
            wrong.append({"key": execution["key"], "billed": execution["billed"], **booked})
    return wrong


def each_account_is_used_by_its_own_attempts(evidence: Evidence) -> list[Any]:
    """No request carries the credential of another account than the attempt's it names."""
    return [
        {"key": line["key"], "account": line["account"], "of": evidence.attempts[line["key"]]["account"]}
        for line in evidence.received
        if line["key"] in evidence.attempts and line["account"] != evidence.attempts[line["key"]]["account"]
    ]


def every_attempt_has_its_job(evidence: Evidence) -> list[Row]:
    """No attempt is without a job, and no dispatch key belongs to two."""
    return evidence.rows("""
        SELECT a.id::text AS attempt, a.dispatch_key FROM jobs_attempt a
        WHERE NOT EXISTS (SELECT FROM jobs_job j WHERE j.id = a.job_id)
        UNION ALL SELECT string_agg(id::text, ', '), dispatch_key FROM jobs_attempt
        GROUP BY dispatch_key HAVING count(*) > 1""")


def no_session_has_leaked(evidence: Evidence) -> list[Row]:
    """After the drain no session is given to anybody, and none rests beyond its time (I2)."""
    return evidence.rows("""
        SELECT id, state, job_id::text AS job, available_at FROM pool_resource
        WHERE state IN ('reserved', 'busy')
           OR (state = 'cooldown' AND (available_at IS NULL OR available_at < clock_timestamp() - interval '30 seconds'))""")


def one_session_one_attempt(evidence: Evidence) -> list[Row]:
    """No two attempts had one session at one time: each was opened when the one before had ended, with a higher fence."""
    return evidence.rows("""
        SELECT * FROM (
            SELECT id, resource_id, fence, opened_at, lag(id) OVER w AS before, lag(fence) OVER w AS fence_before,
                   lag(ended_at, 1, '-infinity') OVER w AS ended_before
            FROM jobs_attempt WINDOW w AS (PARTITION BY resource_id ORDER BY id)) a
        WHERE before IS NOT NULL AND (fence <= fence_before OR ended_before IS NULL OR ended_before > opened_at)""")


def sessions_move_legally(evidence: Evidence) -> list[Any]:
    """A session is given out only when it is available, and its moves are a way to the state that it has (I11)."""
    stood: dict[int, str] = defaultdict(str)
    wrong = []
    for move in evidence.rows("SELECT subject_id AS session, from_state, to_state FROM pool_resourcemove ORDER BY id"):
        before = stood[move["session"]]
        if move["from_state"] != before or move["to_state"] not in SESSION_MOVES.get(before, ()):
            wrong.append({"stood": before, **move})
        stood[move["session"]] = move["to_state"]
    standing = {row["id"]: row["state"] for row in evidence.rows("SELECT id, state FROM pool_resource")}
    return wrong + [
        {"session": session, "state": state, "moved to": stood[session]}
        for session, state in standing.items()
        if stood[session] != state
    ]


RULES = (
    Rule("U2", the_ceiling_is_kept),
    Rule("U2", nothing_was_sent_beyond_the_ceiling),
    Rule("U3", the_books_agree),
    Rule("I13", what_was_billed_is_booked),
    Rule("U4", each_account_is_used_by_its_own_attempts),
    Rule("U5", every_attempt_has_its_job),
    Rule("I2", no_session_has_leaked),
    Rule("I1", one_session_one_attempt),
    Rule("I11", sessions_move_legally),
)
