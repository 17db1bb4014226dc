"""How far prices are from what is charged, and expected costs from what attempts took of upstream accounts; by job type."""

from datetime import datetime
from typing import Any

from jobs.queries.reading import CLOCKS_APART, earliest_id
from statemachine.sql import Row, fetch

MOST_JOBS = 200_000  # the newest of the time; more would be a burden on a live database
MOST_TYPES = 1_000

_JOBS = f"""
WITH newest AS (
    SELECT * FROM jobs_job WHERE id >= %(first)s AND created_at >= %(since)s ORDER BY id DESC LIMIT {MOST_JOBS})"""

_COUNTED = f"{_JOBS} SELECT count(*) AS jobs FROM newest"

# A job's charge is of its last run: earlier ones cost nothing.
_OF_TENANTS = f"""{_JOBS}
SELECT t.name AS type, count(*) AS completed, sum(j.price)::bigint AS held, sum(j.charged)::bigint AS charged,
       avg(j.charged::float8 / nullif(j.price, 0)) AS mean_ratio,
       count(*) FILTER (WHERE h.overrun > 0 AND j.overrun = 'absorb') AS absorbed_jobs,
       coalesce(sum(h.overrun) FILTER (WHERE j.overrun = 'absorb'), 0)::bigint AS absorbed,
       count(*) FILTER (WHERE h.overrun > 0 AND j.overrun <> 'absorb') AS owed_jobs,
       coalesce(sum(h.overrun) FILTER (WHERE j.overrun <> 'absorb'), 0)::bigint AS owed,
       count(*) FILTER (WHERE j.flagged <> '') AS flagged,
       coalesce(sum(r.refunds), 0)::bigint AS refunds, coalesce(sum(r.amount), 0)::bigint AS refunded
FROM newest j JOIN jobs_jobtype t ON t.id = j.type_id
LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
LEFT JOIN LATERAL (
    SELECT count(*) AS refunds, sum(back.amount) AS amount
    FROM credits_transfer charge JOIN credits_transfer back ON back.reverses_id = charge.id
    WHERE charge.op_key = 'settle:' || h.id AND h.captured > 0 OFFSET 0) r ON true
WHERE j.state = 'completed'
GROUP BY t.name ORDER BY t.name LIMIT {MOST_TYPES}"""

_OF_ACCOUNTS = f"""{_JOBS}
SELECT t.name AS type, a.verdict IN ('succeeded', 'partial') AS succeeded, count(*) AS attempts,
       sum(h.amount)::bigint AS expected, sum(h.captured + h.overrun)::bigint AS charged,
       avg((h.captured + h.overrun)::float8 / nullif(h.amount, 0)) AS mean_ratio
FROM newest j JOIN jobs_jobtype t ON t.id = j.type_id
JOIN credits_hold h ON h.job_id = j.id AND h.attempt > 0 AND h.status = 'captured'
JOIN jobs_attempt a ON a.job_id = j.id AND a.number = h.attempt
GROUP BY 1, 2 ORDER BY 1, 2 DESC LIMIT {2 * MOST_TYPES}"""


def jobs_looked_at(since: datetime) -> int:
    """How many jobs submitted from then on are in the tables; MOST_JOBS: there may be more, the newest are."""
    return int(fetch(_COUNTED, _parameters(since))[0]["jobs"])


def of_tenants(since: datetime) -> list[Row]:
    """By type, of the completed jobs: held, charged (micro-credits), overruns by policy, flagged, refunds."""
    return fetch(_OF_TENANTS, _parameters(since))


def of_accounts(since: datetime) -> list[Row]:
    """By type, and those that `succeeded` apart: what attempts were expected to take of upstream accounts, and took."""
    return fetch(_OF_ACCOUNTS, _parameters(since))


def _parameters(since: datetime) -> dict[str, Any]:
    # Ids begin with their time, so their index ends the search.
    return {"first": earliest_id(since - CLOCKS_APART), "since": since}
