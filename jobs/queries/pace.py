"""How fast the pools work, from the newest rows by primary key: what is read is bounded, however much has been done."""

from statemachine.sql import fetch

MOST_MOVES = 5_000
MOST_ATTEMPTS = 2_000
RECENT_SECONDS = 60
LONGEST_HANDOFF_SECONDS = 10  # a longer gap: the session had nothing to do, e.g. all who waited were at their cap

# Of jobs that ended in the last minute, or since the oldest move that was read.
_THROUGHPUT = f"""
WITH recent AS MATERIALIZED (
    SELECT subject_id, to_state, at FROM jobs_jobmove ORDER BY id DESC LIMIT {MOST_MOVES}),
span AS (
    SELECT CASE WHEN count(*) < {MOST_MOVES} THEN {RECENT_SECONDS}
           ELSE LEAST(GREATEST(EXTRACT(EPOCH FROM clock_timestamp() - min(at)), 0.1), {RECENT_SECONDS}) END AS seconds
    FROM recent)
SELECT j.pool_id, (count(*) / (SELECT seconds FROM span))::float AS per_second
FROM recent m JOIN jobs_job j ON j.id = m.subject_id
WHERE m.to_state IN ('completed', 'failed', 'cancelled')
  AND m.at > clock_timestamp() - interval '{RECENT_SECONDS} seconds'
GROUP BY j.pool_id"""

# From the end of one attempt of a session, and its cooldown, to the call of the next. Only first calls of jobs that
# waited already: a retry waits for its back-off. Where the upstream said how long to rest, the rest is not known here.
_HANDOFF = f"""
WITH recent AS MATERIALIZED (
    SELECT id, job_id, resource_id, number, sendings, called_at, ended_at, retry_after_ms, error_class
    FROM jobs_attempt ORDER BY id DESC LIMIT {MOST_ATTEMPTS}),
pairs AS (
    SELECT job_id, number, sendings, called_at, lag(ended_at) OVER session AS ended_at,
           lag(retry_after_ms) OVER session AS retry_after_ms, lag(error_class) OVER session AS error_class
    FROM recent WINDOW session AS (PARTITION BY resource_id ORDER BY id)),
gaps AS (
    SELECT j.pool_id, EXTRACT(EPOCH FROM a.called_at - free.at)::float * 1000 AS ms
    FROM pairs a JOIN jobs_job j ON j.id = a.job_id JOIN pool_pool p ON p.id = j.pool_id
    CROSS JOIN LATERAL (SELECT a.ended_at + make_interval(secs => p.cooldown_ms / 1000.0) AS at) free
    WHERE a.number = 1 AND a.sendings = 1 AND a.retry_after_ms IS NULL AND a.error_class NOT IN ('busy', 'auth')
      AND a.called_at > clock_timestamp() - interval '{RECENT_SECONDS} seconds' AND j.queued_at <= free.at
      AND a.called_at BETWEEN free.at AND free.at + interval '{LONGEST_HANDOFF_SECONDS} seconds')
SELECT pool_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
FROM gaps GROUP BY pool_id"""


def throughput() -> dict[int, float]:
    """Jobs that ended per second, by pool; pools where none did are missing."""
    return {row["pool_id"]: row["per_second"] for row in fetch(_THROUGHPUT)}


def handoff() -> dict[int, tuple[float, float]]:
    """From a session's end to its next job's call, by pool: median and 99th percentile in milliseconds."""
    return {row["pool_id"]: (row["p50"], row["p99"]) for row in fetch(_HANDOFF)}
