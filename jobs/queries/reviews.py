"""What the attempts of a job say about its open hold."""

from collections.abc import Sequence
from uuid import UUID

from jobs.queries.flights import UNDECIDED
from jobs.queries.late import COST, JOINED
from jobs.states import ACCEPTED, CALLING, PROVEN_SQL, TERMINAL_SQL, UNKNOWN
from statemachine.sql import Row, fetch

# The facts, in the order in which they are asked; what is none of them lives, and needs nothing.
ORPHANED, UNFINISHED, STRANDED, OUTCOME_UNKNOWN, OVERRUNNING, LIVES = (
    "orphaned",
    "unfinished",
    "stranded",
    "outcome_unknown",
    "overrunning",
    "lives",
)

# One snapshot: a job that has just ended has closed its hold with it. A repeat moves `called_at`, so an attempt's age is
# counted from `opened_at`, seconds before its first call.
_FACTS = f"""
SELECT h.id AS hold_id, h.job_id AS id, h.run, j.run AS job_run, j.state, j.tenant_id, j.pool_id, o.id AS attempt_id,
       CASE
       WHEN j.id IS NULL OR j.state IN {TERMINAL_SQL} OR j.run <> h.run THEN '{ORPHANED}'
       WHEN EXISTS (SELECT FROM jobs_attempt a
                    WHERE a.job_id = j.id AND a.ended_at IS NOT NULL AND a.finished_at IS NULL) THEN '{UNFINISHED}'
       WHEN j.state = 'processing' AND o.id IS NULL THEN '{STRANDED}'
       WHEN o.verdict = '{UNKNOWN}' AND o.opened_at < d.asked THEN '{OUTCOME_UNKNOWN}'
       WHEN o.phase IN ('{CALLING}', '{ACCEPTED}') AND o.opened_at < least(d.asked,
            statement_timestamp() - make_interval(secs => GREATEST(o.over_ms, jt.max_runtime_ms) / 1000.0))
            THEN '{OVERRUNNING}'
       ELSE '{LIVES}' END AS fact
FROM credits_hold h
CROSS JOIN (SELECT statement_timestamp() - make_interval(secs => %s) AS asked) d
LEFT JOIN jobs_job j ON j.id = h.job_id
LEFT JOIN jobs_jobtype jt ON jt.id = j.type_id
LEFT JOIN jobs_attempt o ON o.job_id = j.id AND o.ended_at IS NULL
WHERE h.id = ANY(%s) AND h.status = 'open' ORDER BY h.id"""

_SUCCESS = f"""
SELECT {COST}, j.charged, a.id AS attempt_id, a.number, a.units
FROM jobs_job j
{JOINED}
JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
LEFT JOIN jobs_attempt a ON a.job_id = j.id AND a.run = j.run AND a.verdict IN {PROVEN_SQL}
WHERE j.id = %s ORDER BY a.id LIMIT 1"""

_UNKNOWN = f"""
SELECT {COST}, a.id AS attempt_id, a.number, a.fence, NULL::float8 AS units
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
{JOINED}
LEFT JOIN credits_hold h ON h.job_id = j.id AND h.run = j.run AND h.attempt = 0
WHERE a.job_id = %s AND a.ended_at IS NULL AND {UNDECIDED}"""


def facts(hold_ids: Sequence[int], verify_seconds: float) -> list[Row]:
    """Of those still open: hold_id, id (of the job), run, job_run, state, attempt_id (the open one) and the fact."""
    return fetch(_FACTS, [verify_seconds, list(hold_ids)])


def success(job_id: UUID) -> Row | None:
    """What `closing.charge` needs of the run's success; `number` is None when it has none."""
    return next(iter(fetch(_SUCCESS, [job_id])), None)


def unknown(job_id: UUID) -> Row | None:
    """What `closing.charge` needs of the attempt whose outcome is unknown and that nobody is sending; its units are not
    known.
    """
    return next(iter(fetch(_UNKNOWN, [job_id])), None)


def charged(job_id: UUID, amount: int) -> None:
    """The (locked) job says what its hold was charged."""
    fetch("UPDATE jobs_job SET charged = %s, version = version + 1 WHERE id = %s", [amount, job_id])
