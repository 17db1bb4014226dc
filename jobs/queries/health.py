"""What should not be: work that is overdue, pools that serve nobody, outcomes nobody found out. Each question is bounded."""

from django.conf import settings

from statemachine.sql import Row, fetch

MOST = 1_000  # rows one question counts

# What the sweep does within a second or two, each with when it was due.
_OVERDUE = {
    "leases that ended": "SELECT lease_until AS due FROM jobs_attempt WHERE ended_at IS NULL",
    "unknown outcomes to look at": "SELECT look_at AS due FROM jobs_attempt WHERE ended_at IS NULL",
    "attempts that ended": """SELECT GREATEST(ended_at, look_at) AS due FROM jobs_attempt
                              WHERE ended_at IS NOT NULL AND finished_at IS NULL AND fetch_at IS NULL""",
    "results to fetch": "SELECT fetch_at AS due FROM jobs_attempt WHERE fetch_at IS NOT NULL",
    "cooldowns that are over": "SELECT available_at AS due FROM pool_resource WHERE state = 'cooldown'",
    "jobs that came due": "SELECT due_at AS due FROM jobs_job WHERE state = 'pending' AND due_at IS NOT NULL",
}
_COUNT_OVERDUE = " UNION ALL ".join(
    f"""SELECT '{what}' AS what, count(*) AS number FROM (
        SELECT FROM ({rows}) o WHERE o.due < clock_timestamp() - make_interval(secs => %(seconds)s) LIMIT {MOST}) o"""
    for what, rows in _OVERDUE.items()
)

_POOLS = """
SELECT p.id, p.name, p.accepting,
       EXISTS (SELECT FROM jobs_jobtype t WHERE t.pool_id = p.id AND t.accepting) AS has_types,
       (SELECT count(*) FROM pool_resource r WHERE r.pool_id = p.id) AS sessions,
       (SELECT count(*) FROM pool_resource r
        WHERE r.pool_id = p.id AND r.accepting AND NOT r.disabled AND r.state <> 'offline') AS open_sessions
FROM pool_pool p ORDER BY p.name"""

# As it was when it was called; an attempt keeps it with the lease. In a closed pool nothing is sent again before its time.
_RUNTIME_MS = f"GREATEST(a.over_ms - {round(settings.LEASE_SECONDS * 1000)}, t.max_runtime_ms)"
_UNKNOWN = f"""
SELECT count(*) AS number, max(overdue)::float AS seconds FROM (
    SELECT EXTRACT(EPOCH FROM clock_timestamp() - GREATEST(
               p.quarantined_until, a.called_at + make_interval(secs => {_RUNTIME_MS} / 1000.0))) AS overdue
    FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN jobs_jobtype t ON t.id = j.type_id
    JOIN pool_upstreamaccount c ON c.id = a.account_id JOIN pool_pool p ON p.id = c.pool_id
    WHERE a.ended_at IS NULL AND a.verdict = 'unknown' LIMIT {MOST}) u
WHERE overdue > %s"""

_FOUND_OUT = f"""
SELECT pool, account, code, refused, count(*) AS number, max(asks_failed) AS in_vain FROM (
    SELECT p.name AS pool, c.name AS account, a.error_code AS code, a.asks_failed,
           a.asks_failed > 0 AND COALESCE((
               SELECT e.content ->> 'error_class' = 'auth' FROM jobs_evidence e
               WHERE e.attempt_id = a.id AND e.kind IN ('poll', 'find') ORDER BY e.id DESC LIMIT 1), false) AS refused
    FROM jobs_attempt a JOIN pool_upstreamaccount c ON c.id = a.account_id JOIN pool_pool p ON p.id = c.pool_id
    WHERE a.ended_at IS NULL AND a.verdict = 'unknown' LIMIT {MOST}) u
GROUP BY pool, account, code, refused ORDER BY count(*) DESC, pool, account, code, refused"""


def overdue(seconds: float) -> list[Row]:
    """What should have been done longer than `seconds` ago: what, number."""
    return [row for row in fetch(_COUNT_OVERDUE, {"seconds": seconds}) if row["number"]]


def pools() -> list[Row]:
    """Each pool: id, name, accepting, has_types (that take jobs), sessions, open_sessions (that may be given to a job)."""
    return fetch(_POOLS)


def unknown_for_too_long(seconds: float) -> Row:
    """Unknown outcomes that stand `seconds` longer than their max_runtime: number, and seconds of the oldest (or None)."""
    return fetch(_UNKNOWN, [seconds])[0]


def found_out() -> list[Row]:
    """Outcomes that are being found out, by account and by what came of the last asking: pool, account, code, refused (the
    account was), number, in_vain (askings in a row that told nothing, the most of any).
    """
    return fetch(_FOUND_OUT)
