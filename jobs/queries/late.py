"""Successes that surfaced late: remembering them, what is known of their runs, and what was decided."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from jobs.states import PROVEN_SQL
from statemachine.sql import Row, fetch

# One per run: a second late answer of it finds the first. In the order of the key, so that two sets do not wait for
# each other.
_REMEMBER = f"""
INSERT INTO jobs_latecompletion (job_id, run, attempt_id, units, reference, booked, why)
SELECT a.job_id, a.run, a.id, v.units, v.reference, 0, ''
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, units double precision, reference text)
JOIN jobs_attempt a ON a.id = v.id
WHERE a.verdict NOT IN {PROVEN_SQL}
ORDER BY a.job_id, a.run ON CONFLICT (job_id, run) DO NOTHING
RETURNING attempt_id AS id, job_id"""

# What `closing.charge` reads. The price of a run is what was held for it: a replay may have another.
COST = """j.id, j.tenant_id, j.pool_id, coalesce(h.amount, j.price) AS price, j.settle, j.overrun, j.payload, j.metadata,
       t.name AS tenant, jt.name AS type, p.name AS pool"""
JOINED = """JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN pool_pool p ON p.id = j.pool_id"""

_UNDECIDED = f"""
SELECT {COST}, l.id AS late_id, l.run, l.units, a.number, a.id AS attempt_id, h.amount AS held, h.status,
       EXISTS (SELECT FROM jobs_attempt o
               WHERE o.job_id = l.job_id AND o.run = l.run AND o.verdict IN {PROVEN_SQL}) AS succeeded
FROM jobs_latecompletion l
JOIN jobs_attempt a ON a.id = l.attempt_id
JOIN jobs_job j ON j.id = l.job_id
{JOINED}
LEFT JOIN credits_hold h ON h.job_id = l.job_id AND h.run = l.run AND h.attempt = 0
WHERE l.job_id = ANY(%s) AND l.decided_at IS NULL ORDER BY j.id, l.id FOR NO KEY UPDATE OF l"""


def remember(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """Keeps successes ({id of the attempt, units, reference}) that ended nothing; returns {id, job_id} of those kept now.

    An attempt that has its success already is passed over. A second caller waits at the key and keeps nothing.
    """
    return fetch(_REMEMBER, [json.dumps(rows)]) if rows else []


def undecided(job_ids: Sequence[UUID]) -> list[Row]:
    """What is not decided yet of these (locked) jobs: all `closing.charge` needs, held, status of the hold, succeeded (any
    attempt of the run).
    """
    return fetch(_UNDECIDED, [list(job_ids)])


def decided(late_id: int, booked: int, why: str) -> None:
    """It is drawn what it means, and nobody asks again."""
    fetch(
        "UPDATE jobs_latecompletion SET decided_at = clock_timestamp(), booked = %s, why = %s WHERE id = %s",
        [booked, why, late_id],
    )


def postpone_job(job_id: UUID, seconds: float) -> None:
    """What is not decided of this job is asked again later."""
    fetch(
        """UPDATE jobs_latecompletion SET look_at = clock_timestamp() + make_interval(secs => %s)
           WHERE job_id = %s AND decided_at IS NULL""",
        [seconds, job_id],
    )


def postpone(late_ids: Sequence[int], seconds: float) -> None:
    """Their runs have not ended: they are asked again later."""
    if late_ids:
        fetch(
            """UPDATE jobs_latecompletion SET look_at = clock_timestamp() + make_interval(secs => %s)
               WHERE id = ANY(%s)""",
            [seconds, list(late_ids)],
        )
