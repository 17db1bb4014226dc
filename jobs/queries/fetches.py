"""Ended attempts whose results lie behind links yet: due, taken up, fetched, or given up.

`fetch_tries` counts how often one was taken up, and is the fence of whoever did; tries that failed are its evidence.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from statemachine.sql import Row, fetch

FETCH = "fetch"  # the kind of evidence that a try which failed leaves
_LATER = "clock_timestamp() + make_interval(secs => %s)"
_TAKE = f"""
WITH due AS (
    SELECT id FROM jobs_attempt WHERE job_id = ANY(%s) AND fetch_at <= clock_timestamp() AND finished_at IS NULL
    ORDER BY fetch_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_attempt a SET fetch_tries = a.fetch_tries + 1, fetch_at = {_LATER} FROM due WHERE a.id = due.id
RETURNING a.id, a.fence, a.fetch_tries AS taken,
          (SELECT count(*) FROM jobs_evidence e WHERE e.attempt_id = a.id AND e.kind = '{FETCH}') AS failed"""
_RENEW = f"""
WITH v AS (SELECT * FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, taken int)),
held AS (
    SELECT a.id FROM jobs_attempt a JOIN v ON v.id = a.id
    WHERE a.fetch_tries = v.taken AND a.fetch_at IS NOT NULL AND a.finished_at IS NULL
    ORDER BY a.id FOR NO KEY UPDATE OF a)
UPDATE jobs_attempt a SET fetch_at = {_LATER} FROM held WHERE a.id = held.id RETURNING a.id"""
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


def take(job_ids: Sequence[UUID], seconds: float, most: int) -> list[Row]:
    """Takes up at most `most` of what is due of these jobs, for `seconds`: id, fence, how often it was taken up with this
    time, and how many tries failed.

    Locks those attempts; a second caller skips them.
    """
    return fetch(_TAKE, [list(job_ids), most, seconds])


def renew(taken: Mapping[int, int], seconds: float) -> set[int]:
    """Nobody else takes these up for `seconds`: attempt → the number it was taken up with. Ids of those still ours.

    Locks them in id order; whoever took one up meanwhile has changed its number.
    """
    rows = [{"id": attempt_id, "taken": number} for attempt_id, number in taken.items()]
    return {row["id"] for row in fetch(_RENEW, [json.dumps(rows), seconds])}


def failed(attempt_id: int) -> Row:
    """How many tries of this attempt failed: by its links (link), and by what is declared, or our storage (ours)."""
    return fetch(
        """SELECT count(*) FILTER (WHERE content->>'cause' IS DISTINCT FROM 'ours') AS link,
                  count(*) FILTER (WHERE content->>'cause' = 'ours') AS ours
           FROM jobs_evidence WHERE attempt_id = %s AND kind = %s""",
        [attempt_id, FETCH],
    )[0]


def again(attempt_id: int, taken: int, seconds: float, code: str, message: str) -> list[Row]:
    """It is tried again after `seconds`; meanwhile the attempt says what it waits for."""
    sql = f"""UPDATE jobs_attempt SET fetch_at = {_LATER}, error_code = %s, error_message = %s
              WHERE {_OURS} RETURNING id, job_id, fetch_at"""
    return fetch(sql, [seconds, code, message, attempt_id, taken])


def let_go(attempt_id: int, taken: int) -> list[Row]:
    """Another may take it up now; what the attempt says stays."""
    sql = f"UPDATE jobs_attempt SET fetch_at = clock_timestamp() WHERE {_OURS} RETURNING id, job_id, fetch_at"
    return fetch(sql, [attempt_id, taken])


def waited_seconds(attempt_id: int) -> float:
    """Since the attempt ended."""
    sql = "SELECT extract(epoch FROM clock_timestamp() - ended_at)::float8 AS waited FROM jobs_attempt WHERE id = %s"
    return float(fetch(sql, [attempt_id])[0]["waited"])


def owing(job_id: UUID) -> Row | None:
    """The attempt of this job whose files were tried in vain: id, tries (that failed), fetch_at, error_message."""
    rows = fetch(
        f"""SELECT id, fetch_at, error_message,
                   (SELECT count(*) FROM jobs_evidence e WHERE e.attempt_id = a.id AND e.kind = '{FETCH}') AS tries
           FROM jobs_attempt a
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


def fetched(attempt_id: int, taken: int, result: Any) -> list[Row]:
    """The result is whole."""
    return fetch(
        f"""UPDATE jobs_attempt SET result = %s::jsonb, links = NULL, fetch_at = NULL, error_code = '', error_message = ''
            WHERE {_OURS} RETURNING id, job_id, resource_id, fence""",
        [json.dumps(result), attempt_id, taken],
    )


def given_up(attempt_id: int, taken: int, code: str, message: str) -> list[Row]:
    """It was executed, and there is no result: it has failed."""
    return fetch(
        f"""UPDATE jobs_attempt SET verdict = 'failed', error_class = '', error_code = %s, error_message = %s,
                   result = NULL, links = NULL, fetch_at = NULL
            WHERE {_OURS} RETURNING id, job_id, resource_id, fence""",
        [code, message, attempt_id, taken],
    )
