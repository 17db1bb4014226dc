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


def owe(links: Mapping[int, Mapping[str, str]]) -> list[Row]:
    """What these (locked) attempts' results link to is to be fetched, now."""
    rows = [{"id": attempt_id, "links": dict(by_name)} for attempt_id, by_name in links.items()]
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


def failed(attempt_id: int) -> int:
    """How many tries of this attempt failed."""
    sql = "SELECT count(*) AS number FROM jobs_evidence WHERE attempt_id = %s AND kind = %s"
    return int(fetch(sql, [attempt_id, FETCH])[0]["number"])


def again(attempt_id: int, taken: int, seconds: float) -> list[Row]:
    """It is tried again after `seconds`."""
    sql = f"UPDATE jobs_attempt SET fetch_at = {_LATER} WHERE {_OURS} RETURNING id, job_id, fetch_at"
    return fetch(sql, [seconds, attempt_id, taken])


def fetched(attempt_id: int, taken: int, result: Any) -> list[Row]:
    """The result is whole."""
    return fetch(
        f"""UPDATE jobs_attempt SET result = %s::jsonb, links = NULL, fetch_at = NULL
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
