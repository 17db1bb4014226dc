"""Ended attempts whose results lie behind links yet: due, taken up, fetched, or given up. Fenced by the try's number."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from statemachine.sql import Row, fetch

_LATER = "clock_timestamp() + make_interval(secs => %s)"
_TAKE = f"""
WITH due AS (
    SELECT id FROM jobs_attempt WHERE job_id = ANY(%s) AND fetch_at <= clock_timestamp() AND finished_at IS NULL
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_attempt a SET fetch_tries = a.fetch_tries + 1, fetch_at = {_LATER} FROM due WHERE a.id = due.id
RETURNING a.id"""
_TAKEN = """
SELECT a.id AS attempt_id, a.fence, a.job_id, a.resource_id, a.dispatch_key, a.number, a.reference, a.links, a.result,
       a.fetch_tries, j.payload, j.metadata, t.name AS type, t.upstream::text AS type_upstream, t.max_runtime_ms,
       tt.name AS tenant, c.name AS account, c.sealed_credential, c.labels, c.vars, c.base_url, c.pool_id,
       p.upstream::text AS pool_upstream
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN jobs_jobtype t ON t.id = j.type_id
JOIN tenants_tenant tt ON tt.id = j.tenant_id
JOIN pool_upstreamaccount c ON c.id = a.account_id
JOIN pool_pool p ON p.id = c.pool_id
WHERE a.id = ANY(%s) ORDER BY a.id"""
_OURS = "id = %s AND fetch_tries = %s AND fetch_at IS NOT NULL AND finished_at IS NULL"


def owe(links: Mapping[int, Any]) -> list[Row]:
    """What these (locked) attempts' results link to is to be fetched, now: links by name, or [the answer that has them]."""
    rows = [{"id": attempt_id, "links": owed} for attempt_id, owed in links.items()]
    return fetch(
        """UPDATE jobs_attempt a SET links = v.links, fetch_at = clock_timestamp()
           FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, links jsonb)
           WHERE a.id = v.id RETURNING a.id, a.job_id, a.fetch_at""",
        [json.dumps(rows)],
    )


def take(job_ids: Sequence[UUID], seconds: float) -> list[Row]:
    """Takes up what is due of these jobs, for `seconds`; rows with all that fetching needs."""
    taken = [row["id"] for row in fetch(_TAKE, [list(job_ids), seconds])]
    return fetch(_TAKEN, [taken]) if taken else []


def renew(attempt_id: int, tries: int, seconds: float) -> bool:
    """Nobody else takes it up for `seconds`; False: somebody has, or it is over."""
    return bool(
        fetch(f"UPDATE jobs_attempt SET fetch_at = {_LATER} WHERE {_OURS} RETURNING id", [seconds, attempt_id, tries])
    )


def again(attempt_id: int, tries: int, seconds: float, code: str, message: str) -> list[Row]:
    """It is tried again after `seconds`; meanwhile the attempt says what it waits for."""
    sql = f"""UPDATE jobs_attempt SET fetch_at = {_LATER}, error_code = %s, error_message = %s
              WHERE {_OURS} RETURNING id, job_id, fetch_at"""
    return fetch(sql, [seconds, code, message, attempt_id, tries])


def failed_tries(attempt_id: int) -> int:
    """How often the links of this attempt brought nothing."""
    sql = """SELECT count(*) AS tries FROM jobs_evidence
             WHERE attempt_id = %s AND kind = 'fetch' AND content->>'cause' = 'link'"""
    return int(fetch(sql, [attempt_id])[0]["tries"])


def waited_seconds(attempt_id: int) -> float:
    """Since the attempt ended."""
    sql = "SELECT extract(epoch FROM clock_timestamp() - ended_at)::float8 AS waited FROM jobs_attempt WHERE id = %s"
    return float(fetch(sql, [attempt_id])[0]["waited"])


def owing(job_id: UUID) -> Row | None:
    """The attempt of this job whose files were tried in vain: id, fetch_tries, fetch_at, error_message."""
    rows = fetch(
        """SELECT id, fetch_tries, fetch_at, error_message FROM jobs_attempt
           WHERE job_id = %s AND fetch_at IS NOT NULL AND finished_at IS NULL AND error_code <> '' LIMIT 1""",
        [job_id],
    )
    return rows[0] if rows else None


def waiting() -> list[Row]:
    """What is waited for: pool, type, why, how many. Of the 1,000 that are due first."""
    return fetch(
        """SELECT p.name AS pool, t.name AS type, a.error_message AS why, count(*) AS number
           FROM (SELECT job_id, error_message FROM jobs_attempt
                 WHERE fetch_at IS NOT NULL AND finished_at IS NULL AND error_code <> ''
                 ORDER BY fetch_at, id LIMIT 1000) a
           JOIN jobs_job j ON j.id = a.job_id
           JOIN jobs_jobtype t ON t.id = j.type_id
           JOIN pool_pool p ON p.id = j.pool_id
           GROUP BY p.name, t.name, a.error_message ORDER BY number DESC, p.name, t.name, why"""
    )


def hasten(job_id: UUID, lease_seconds: float) -> list[Row]:
    """It is due now; what is due within a lease is being fetched, or soon is."""
    sql = f"""UPDATE jobs_attempt SET fetch_at = clock_timestamp()
              WHERE job_id = %s AND fetch_at > {_LATER} AND finished_at IS NULL RETURNING id, job_id, fetch_at"""
    return fetch(sql, [job_id, lease_seconds])


def fetched(attempt_id: int, tries: int, result: Any) -> list[Row]:
    """The result is whole."""
    return fetch(
        f"""UPDATE jobs_attempt SET result = %s::jsonb, links = NULL, fetch_at = NULL, error_code = '', error_message = ''
            WHERE {_OURS} RETURNING id, job_id, resource_id, fence""",
        [json.dumps(result), attempt_id, tries],
    )


def given_up(attempt_id: int, tries: int, code: str, message: str) -> list[Row]:
    """It was executed, and there is no result: it has failed."""
    return fetch(
        f"""UPDATE jobs_attempt SET verdict = 'failed', error_class = '', error_code = %s, error_message = %s,
                   result = NULL, links = NULL, fetch_at = NULL
            WHERE {_OURS} RETURNING id, job_id, resource_id, fence""",
        [code, message, attempt_id, tries],
    )
