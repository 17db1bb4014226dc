"""How far prices are from what is charged, and expected costs from what attempts took of upstream accounts; by job type."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from jobs.queries.reading import CLOCKS_APART, earliest_id
from statemachine.patience import patient
from statemachine.sql import Row, fetch

MOST_JOBS = 200_000  # the newest of the time; more would be a burden on a live database
MOST_TYPES = 1_000
LONGEST_MINUTES = 2  # of one table

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


@dataclass(frozen=True)
class Drift:
    """How many jobs were looked at (MOST_JOBS: there may be more), and the tables, amounts in micro-credits.

    `of_tenants`, by type, of the completed jobs: held, charged, overruns by policy, flagged, refunds. `of_accounts`, by type,
    those that succeeded apart: what attempts were expected to take of upstream accounts, and took.
    """

    jobs: int
    of_tenants: list[Row]
    of_accounts: list[Row]


def report(since: datetime) -> Drift:
    """Of the jobs submitted from then on. Only reads, in one snapshot of its own; not for inside a transaction."""
    with patient(LONGEST_MINUTES * 60 + 10), transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = '{LONGEST_MINUTES}min'")
        # Ids begin with their time, so their index ends the search.
        terms = {"first": earliest_id(since - CLOCKS_APART), "since": since}
        return Drift(fetch(_COUNTED, terms)[0]["jobs"], fetch(_OF_TENANTS, terms), fetch(_OF_ACCOUNTS, terms))
