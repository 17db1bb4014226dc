"""Writing to attempts in sets: calls begun, leases renewed, evidence, news, ends and doubts. All but evidence is fenced."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from jobs.inquiry import LONGEST_REST_MS
from jobs.queries.called_as import CALLED_AS, IS_AS_CALLED
from jobs.queries.flights import OF_TYPE_MS, OVER_MS
from jobs.states import ACCEPTED, CALLING, ENDED, INTENDED, NOT_EXECUTED, UNKNOWN
from statemachine.sql import Row, fetch

# After a restore a job may have to go out under a key that lost commits may have sent: then this one is a repeat.
_BEGIN = f"""
WITH resent AS (
    UPDATE jobs_suspicion s SET attempt_id = a.id FROM jobs_attempt a
    WHERE a.job_id = ANY(%(jobs)s) AND a.ended_at IS NULL AND a.phase = '{INTENDED}' AND s.job_id = a.job_id
      AND s.decided = 'same_key' AND s.attempt_id IS NULL
    RETURNING a.id)
UPDATE jobs_attempt SET phase = '{CALLING}', called_at = clock_timestamp(), holder = %(holder)s,
       sendings = 1 + (%(holder)s <> '' AND id IN (SELECT id FROM resent))::int,
       lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
       over_ms = (SELECT {OF_TYPE_MS} FROM jobs_job j JOIN jobs_jobtype jt ON jt.id = j.type_id WHERE j.id = job_id),
       called_as = (SELECT {CALLED_AS} FROM jobs_job j JOIN jobs_jobtype jt ON jt.id = j.type_id, pool_upstreamaccount c
                    JOIN pool_pool p ON p.id = c.pool_id WHERE j.id = job_id AND c.id = jobs_attempt.account_id)
WHERE job_id = ANY(%(jobs)s) AND ended_at IS NULL AND phase = '{INTENDED}'
RETURNING id, job_id, resource_id, fence"""

_CALLED = """
UPDATE jobs_attempt a SET called_as = v.called_as FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, called_as text)
WHERE a.id = v.id AND a.ended_at IS NULL"""

# What it began before may run on, so the longest of all its sendings counts, from the last of them.
_AGAIN = f"""
WITH due AS (
    SELECT a.id, a.resource_id, {OVER_MS} AS over_ms
    FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id JOIN jobs_jobtype jt ON jt.id = j.type_id
    JOIN pool_upstreamaccount c ON c.id = a.account_id JOIN pool_pool p ON p.id = c.pool_id
    WHERE a.id = ANY(%s) AND a.ended_at IS NULL AND a.look_at <= clock_timestamp()
      AND (p.quarantined_until IS NULL OR p.quarantined_until <= clock_timestamp()) AND {IS_AS_CALLED}
    ORDER BY a.id FOR NO KEY UPDATE OF a),
sessions AS (
    SELECT r.id FROM pool_resource r JOIN due ON due.resource_id = r.id ORDER BY r.id FOR NO KEY UPDATE OF r),
fenced AS (
    UPDATE pool_resource r SET fence = r.fence + 1 FROM sessions s WHERE r.id = s.id RETURNING r.id, r.fence)
UPDATE jobs_attempt a SET fence = f.fence, holder = %s, sendings = a.sendings + 1, look_at = NULL,
       over_ms = due.over_ms,
       called_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => %s)
FROM due, fenced f WHERE a.id = due.id AND f.id = due.resource_id
RETURNING a.id, a.job_id, a.resource_id, a.fence"""

_RENEW = """
WITH v AS (SELECT * FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint)),
held AS (
    SELECT a.id FROM jobs_attempt a JOIN v ON v.id = a.id
    WHERE a.fence = v.fence AND a.ended_at IS NULL AND a.lease_until IS NOT NULL
    ORDER BY a.id FOR NO KEY UPDATE OF a)
UPDATE jobs_attempt a SET lease_until = clock_timestamp() + make_interval(secs => %s)
FROM held WHERE a.id = held.id RETURNING a.id"""

_EVIDENCE = """
INSERT INTO jobs_evidence (attempt_id, kind, fence, content)
SELECT v.id, v.kind, v.fence, v.content
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint, key text, kind text, content jsonb)
JOIN jobs_attempt a ON a.id = v.id AND a.dispatch_key = v.key
RETURNING attempt_id"""

_LOCK = """
SELECT id, dispatch_key, fence FROM jobs_attempt WHERE id = ANY(%s) AND ended_at IS NULL ORDER BY id FOR NO KEY UPDATE"""

_END = f"""
UPDATE jobs_attempt a SET phase = '{ENDED}', ended_at = clock_timestamp(), lease_until = NULL, look_at = NULL,
       cancel_at = NULL,
       verdict = v.verdict, error_class = v.error_class, error_code = v.error_code, error_message = v.error_message,
       retry_after_ms = v.retry_after_ms, units = v.units, reported_cost = v.reported_cost,
       usage_problem = v.usage_problem, result = v.result, reference = v.reference
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint, verdict text, error_class text, error_code text,
     error_message text, retry_after_ms bigint, units double precision, reported_cost bigint,
     usage_problem text, result jsonb, reference text)
WHERE a.id = v.id AND a.fence = v.fence AND a.ended_at IS NULL
RETURNING a.id, a.job_id, a.resource_id, a.fence"""

# What the upstream told us while it was being asked, or called, is newer than the answer.
_TOLD_SINCE = "a.told_at > a.called_at + make_interval(secs => v.age_ms / 1000)"
# However long its pauses are, it is asked once more when it is over, and while it is overdue each hour.
_OVER = "a.called_at + make_interval(secs => v.over_ms / 1000.0)"
_NEXT_LOOK = f"""CASE WHEN v.pause_ms IS NULL THEN {_OVER}
     WHEN clock_timestamp() < {_OVER} THEN LEAST(clock_timestamp() + make_interval(secs => v.pause_ms / 1000.0), {_OVER})
     ELSE clock_timestamp() + make_interval(secs => LEAST(v.pause_ms, {LONGEST_REST_MS}) / 1000.0) END"""
# A call that was answered needs its lease no more; from then on the upstream is asked.
_GO_ON = f"""
UPDATE jobs_attempt a SET phase = CASE WHEN v.answered THEN '{ACCEPTED}' ELSE a.phase END,
       lease_until = CASE WHEN v.answered THEN NULL ELSE a.lease_until END,
       holder = CASE WHEN v.answered THEN '' ELSE a.holder END,
       verdict = CASE WHEN v.answered THEN '' ELSE a.verdict END,
       error_code = CASE WHEN v.answered THEN '' ELSE a.error_code END,
       error_message = CASE WHEN v.answered THEN '' ELSE a.error_message END,
       asks_failed = 0, asked_at = CASE WHEN v.asked THEN clock_timestamp() ELSE a.asked_at END,
       told_at = CASE WHEN v.answered THEN a.told_at ELSE clock_timestamp() END,
       reference = COALESCE(NULLIF(v.reference, ''), a.reference), progress = GREATEST(v.progress, a.progress),
       look_at = CASE WHEN NOT v.answered THEN a.look_at
                      WHEN v.pause_ms IS NOT NULL AND {_TOLD_SINCE} THEN clock_timestamp()
                      ELSE {_NEXT_LOOK} END
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint, answered boolean, asked boolean, reference text,
     progress double precision, age_ms double precision, pause_ms bigint, over_ms bigint)
WHERE a.id = v.id AND a.fence = v.fence AND a.ended_at IS NULL
RETURNING a.id, a.job_id, a.look_at"""

_DOUBT = f"""
UPDATE jobs_attempt a SET verdict = '{UNKNOWN}', lease_until = NULL, holder = '',
       error_class = v.error_class,
       asked_at = CASE WHEN v.asked THEN clock_timestamp() ELSE a.asked_at END,
       asks_failed = CASE WHEN v.asked THEN a.asks_failed + 1 ELSE a.asks_failed END,
       error_code = v.error_code, error_message = v.error_message,
       look_at = CASE WHEN a.reference <> '' AND {_TOLD_SINCE} THEN clock_timestamp()
                      ELSE {_NEXT_LOOK} END
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint, asked boolean, error_class text, error_code text,
     error_message text, age_ms double precision, pause_ms bigint, over_ms bigint)
WHERE a.id = v.id AND a.fence = v.fence AND a.ended_at IS NULL
RETURNING a.id, a.job_id, a.look_at"""

_ASK = """
UPDATE jobs_attempt a SET look_at = clock_timestamp() + make_interval(secs => v.pause_ms / 1000.0)
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, pause_ms bigint) WHERE a.id = v.id AND a.ended_at IS NULL"""

_NOT_ASKED = """
UPDATE jobs_attempt SET look_at = LEAST(look_at, clock_timestamp() + interval '1 second')
WHERE id = ANY(%s) AND ended_at IS NULL AND lease_until IS NULL"""

_NEWS = """
UPDATE jobs_attempt SET told_at = clock_timestamp(), reference = COALESCE(NULLIF(reference, ''), %s),
       look_at = CASE WHEN lease_until IS NULL THEN clock_timestamp() ELSE look_at END
WHERE id = %s AND ended_at IS NULL RETURNING id, job_id, look_at, lease_until"""

_WANT_CANCEL = f"""
UPDATE jobs_attempt SET cancel_at = clock_timestamp()
WHERE job_id = %s AND ended_at IS NULL AND phase <> '{INTENDED}' RETURNING id, job_id"""

_CANCELLING = """
UPDATE jobs_attempt a SET cancels = a.cancels + v.sent::int,
       cancel_at = clock_timestamp() + make_interval(secs => v.pause_ms / 1000.0)
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, sent boolean, pause_ms bigint)
WHERE a.id = v.id AND a.ended_at IS NULL"""

_CANCEL_ASKED = """
UPDATE jobs_attempt a SET cancel_at = NULL,
       look_at = CASE WHEN a.lease_until IS NULL THEN LEAST(a.look_at, clock_timestamp()) ELSE a.look_at END
FROM jsonb_to_recordset(%s::jsonb) AS v(id bigint, fence bigint)
WHERE a.id = v.id AND a.fence = v.fence AND a.ended_at IS NULL RETURNING a.id, a.job_id, a.look_at"""

_ABANDON = f"""
UPDATE jobs_attempt SET phase = '{ENDED}', ended_at = clock_timestamp(), finished_at = clock_timestamp(),
       lease_until = NULL, verdict = '{NOT_EXECUTED}', error_code = %s
WHERE job_id = ANY(%s) AND ended_at IS NULL AND phase = '{INTENDED}'
RETURNING id, job_id, resource_id, fence, run, number"""


def begin(job_ids: Sequence[UUID], holder: str, lease_seconds: float) -> list[Row]:
    """Commits the intent: the open attempts of these (locked) jobs go from intended to calling, held by `holder`.

    One under a key that a restore left to be sent again counts as sent before. No `holder`: nobody sends it now.
    """
    return fetch(_BEGIN, {"jobs": list(job_ids), "holder": holder, "lease": lease_seconds})


def called(rows: Sequence[dict[str, Any]]) -> None:
    """What the calls of these (locked) attempts are made of after all: {id, called_as}."""
    if rows:
        fetch(_CALLED, [json.dumps(rows)])


def begin_again(attempt_ids: Sequence[int], holder: str, lease_seconds: float) -> list[Row]:
    """Takes doubted (locked) attempts over for another sending: same key, same resource, a new fence on both; none whose
    pool is closed, or that would be called otherwise, by now.
    """
    return fetch(_AGAIN, [list(attempt_ids), holder, lease_seconds])


def renew(keys: Iterable[tuple[int, int]], lease_seconds: float) -> set[int]:
    """Heartbeat of many calls in one statement: ids of the (id, fence) that are still ours."""
    rows = [{"id": attempt_id, "fence": fence} for attempt_id, fence in keys]
    return {row["id"] for row in fetch(_RENEW, [json.dumps(rows), lease_seconds])}


def append_evidence(rows: Sequence[dict[str, Any]]) -> set[int]:
    """Keeps what was learned ({id, fence, key, kind, content}), also from those who come late; of which attempts.

    Of an attempt that a restore took away nothing is kept, whatever has its id by now: `key` is its dispatch key.
    """
    return {row["attempt_id"] for row in fetch(_EVIDENCE, [json.dumps(rows)])} if rows else set()


def lock(attempt_ids: Sequence[int]) -> dict[str, int]:
    """Locks those of the attempts that are open, in id order; their fences by dispatch key, as they stand."""
    return {row["dispatch_key"]: row["fence"] for row in fetch(_LOCK, [list(attempt_ids)])}


def shown_to_be_taken(attempt_ids: Sequence[int]) -> set[int]:
    """Those of these (locked) attempts whose work the upstream has shown that it took."""
    rows = fetch(
        f"""SELECT id FROM jobs_attempt
            WHERE id = ANY(%s) AND (phase = '{ACCEPTED}' OR reference <> '' OR told_at IS NOT NULL)""",
        [list(attempt_ids)],
    )
    return {row["id"] for row in rows}


def end(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """Ends the attempts whose fence still stands; rows are those that ended now. Locks them in id order first."""
    if not rows:
        return []
    fetch(_LOCK, [[row["id"] for row in rows]])
    return fetch(_END, [json.dumps(rows)])


def go_on(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """The upstream has the work and goes on: what it calls it, how far it is, and when it is asked again.

    `answered`: by an answer of ours, not by its own word while a call may still be under way. Asked again after
    `pause_ms`; null: nobody can ask, so when it is over, `over_ms` after the intent. No pause goes beyond that moment. The
    caller has locked them.
    """
    return [] if not rows else fetch(_GO_ON, [json.dumps(rows)])


def not_asked(attempt_ids: Sequence[int]) -> None:
    """These, taken up to be asked for, were not: whoever is at it already may have missed the news."""
    fetch(_NOT_ASKED, [list(attempt_ids)])


def ask(rows: Sequence[dict[str, Any]]) -> None:
    """These (locked) attempts are being asked for, or wait for their account's budget: not due before `pause_ms`."""
    if rows:
        fetch(_ASK, [json.dumps(rows)])


def told(attempt_id: int) -> int:
    """How often the upstream called back about it."""
    (row,) = fetch("SELECT count(*) AS n FROM jobs_evidence WHERE attempt_id = %s AND kind = 'callback'", [attempt_id])
    return int(row["n"])


def news(attempt_id: int, reference: str) -> list[Row]:
    """The upstream called back about this open attempt: it is asked for at once, or as soon as its call is answered."""
    return fetch(_NEWS, [reference, attempt_id])


def want_cancel(job_id: UUID) -> list[Row]:
    """The upstream is to be asked to cancel the attempt of this (locked) job that it may have."""
    return fetch(_WANT_CANCEL, [job_id])


def cancelling(rows: Sequence[dict[str, Any]]) -> None:
    """These (locked) attempts are being cancelled (`sent`), or will be: {id, sent, pause_ms}, null: not any more."""
    if rows:
        fetch(_CANCELLING, [json.dumps(rows)])


def cancel_asked(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """The upstream took the wish to cancel these (locked; {id, fence}); what it makes of it is asked at once, or answered by
    the call that is under way.
    """
    return [] if not rows else fetch(_CANCEL_ASKED, [json.dumps(rows)])


def doubt(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """Marks outcomes of these (locked) attempts as unknown, to be looked at after `pause_ms`, at the latest when it is
    over, `over_ms` after the intent.
    """
    return [] if not rows else fetch(_DOUBT, [json.dumps(rows)])


def abandon(job_ids: Sequence[UUID], why: str) -> list[Row]:
    """Ends attempts that were never sent, with nothing left to draw from them."""
    return fetch(_ABANDON, [why, list(job_ids)])
