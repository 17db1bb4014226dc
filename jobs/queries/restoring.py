"""After commits were lost: moving on whatever might be counted twice, and closing and opening pools."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection

from jobs.states import ACCEPTED, CALLING
from pool.queries import quarantine
from statemachine.sql import Row, fetch

JUMP = 2**32  # fences and numbers that the lost commits may have drawn: more than they can have been
VERSIONS = 1_000_000  # the same for the versions of one row
# A backup that is restored twice begins at the same numbers twice; by the time the second jump lands beyond all that was drawn
# after the first, at up to so many a second.
DRAWN, TOLD = 2**16, 1_000
SINCE = datetime(2026, 1, 1, tzinfo=UTC)

# In the lock order. EXCLUSIVE lets readers be and makes every writer wait. Whenever a claim that waits here took its snapshot,
# it reads the quarantine on the session that it locks.
_ALONE = "LOCK TABLE jobs_job, jobs_attempt, pool_resource, pool_pool IN EXCLUSIVE MODE"
_TIME = "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '30s', true)"

_SEQUENCES = """
SELECT setval((quote_ident(schemaname) || '.' || quote_ident(sequencename))::regclass,
              COALESCE(last_value, start_value) + %(drawn)s::bigint)
FROM pg_sequences WHERE schemaname = current_schema() AND data_type = 'bigint'::regtype"""
_FENCES = "UPDATE pool_resource SET fence = fence + %(drawn)s::bigint, version = version + %(told)s::bigint"
# What was calling may have been sent again since; a callback or a poll may bring news of what was accepted at once.
_ATTEMPTS = f"""
UPDATE jobs_attempt SET fence = fence + %(drawn)s::bigint,
       look_at = CASE WHEN phase = '{ACCEPTED}' THEN clock_timestamp() ELSE look_at END,
       called_at = CASE WHEN phase = '{CALLING}' THEN GREATEST(called_at, %(quiet)s::timestamptz) ELSE called_at END
WHERE ended_at IS NULL RETURNING id, job_id, resource_id, fence, phase"""
# One that had ended may have been replayed since, unless it is completed.
_VERSIONS = "UPDATE jobs_job SET version = version + %(told)s::bigint WHERE state <> 'completed'"

# A job stays in its pool when its type moves to another, and may have been replayed there unless it is completed.
_CLOSE = """
WITH types AS (
    SELECT pool_id, id AS type_id FROM jobs_jobtype
    UNION SELECT DISTINCT pool_id, type_id FROM jobs_job WHERE state <> 'completed'),
longest AS (
    SELECT y.pool_id, max(t.max_runtime_ms) / 1000.0 AS seconds FROM types y JOIN jobs_jobtype t ON t.id = y.type_id
    GROUP BY y.pool_id)
UPDATE pool_pool p SET quarantined_at = clock_timestamp(), quarantine_note = %(note)s,
       quarantined_until = GREATEST(p.quarantined_until, %(quiet)s::timestamptz + make_interval(secs => COALESCE(
           (SELECT seconds + %(sending)s FROM longest WHERE pool_id = p.id), 0)))
RETURNING p.id, p.name, p.quarantined_until"""
# Of several restores the one that has most to wait for.
_SENT_UNTIL = """
SELECT max(COALESCE(quiet_since, at + make_interval(secs => %s))) AS until, clock_timestamp() AS now FROM pool_restoration
HAVING count(*) > 0"""
_LOCK = "SELECT id FROM pool_pool WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
# One that is open is closed for no time where none is said: until its jobs are decided about.
_CLOSE_AGAIN = """
UPDATE pool_pool p SET quarantined_at = COALESCE(p.quarantined_at, clock_timestamp()),
       quarantine_note = CASE WHEN p.quarantined_at IS NULL THEN %(note)s ELSE p.quarantine_note END,
       quarantined_until = GREATEST(COALESCE(p.quarantined_until, clock_timestamp()),
                                    (%(until)s::jsonb ->> p.id::text)::timestamptz)
WHERE p.id = ANY(%(pools)s)"""

_STANDING = """
SELECT p.id, p.name, p.quarantined_at, p.quarantined_until, p.quarantine_note,
       p.quarantined_until <= clock_timestamp() AS is_over,
       (SELECT count(*) FROM jobs_suspicion s WHERE s.pool_id = p.id AND s.decided_at IS NULL) AS undecided
FROM pool_pool p WHERE p.quarantined_at IS NOT NULL ORDER BY p.name"""
_OPEN = """
UPDATE pool_pool p SET quarantined_at = NULL, quarantined_until = NULL, quarantine_note = ''
WHERE p.id = %s AND p.quarantined_until <= clock_timestamp()
  AND NOT EXISTS (SELECT FROM jobs_suspicion s WHERE s.pool_id = p.id AND s.decided_at IS NULL)
RETURNING p.id, p.name"""

# While the pool is closed nothing new begins in it, so what is under way is of before.
_AFFECTED = """
SELECT count(*) FILTER (WHERE state = 'pending') AS waiting, count(*) FILTER (WHERE state <> 'pending') AS under_way,
       clock_timestamp() AS now
FROM jobs_job WHERE pool_id = %s AND state IN ('pending', 'assigned', 'processing')"""
_GIVEN_UP = """
SELECT count(*) AS jobs FROM jobs_suspicion WHERE pool_id = %s AND decided = 'nobody_knows' AND decided_at >= %s"""


def take_time() -> None:
    """The rest of this transaction may take as long as it needs, but for locks of others. The caller is patient for as long."""
    with connection.cursor() as cursor:
        cursor.execute(_TIME)


def be_alone() -> None:
    """Makes every other writer of jobs, attempts, sessions and pools wait until this transaction ends.

    A claim locks sessions before the others, so it and this one may wait for each other: then Postgres ends one of the two.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ALONE)


def jump(quiet: datetime, at: datetime) -> list[Row]:
    """Fences, ids and versions go on beyond any that the lost commits drew; rows are the open attempts, with their new fences.

    `quiet`: when nothing was sent any more. `at`: now; a later one lands beyond what an earlier one led to.
    """
    seconds = max(0.0, (at - SINCE).total_seconds())
    terms = {"drawn": JUMP + int(seconds * DRAWN), "told": VERSIONS + int(seconds * TOLD), "quiet": quiet}
    fetch(_SEQUENCES, terms)
    fetch(_FENCES, terms)
    fetch(_VERSIONS, terms)
    return fetch(_ATTEMPTS, terms)


def close_pools(quiet: datetime, sending_seconds: float, note: str) -> list[Row]:
    """No pool gives a session before the longest of its types has run, begun within `sending_seconds` after `quiet`; id, name,
    quarantined_until.
    """
    quarantine.close_sessions()
    return fetch(_CLOSE, {"quiet": quiet, "sending": sending_seconds, "note": note})


def sent_until() -> Row | None:
    """Until when something of before a restore may have been sent, and now; None: there was no restore."""
    return next(iter(fetch(_SENT_UNTIL, [settings.LEASE_SECONDS])), None)


def close_again(pool_ids: Sequence[int], until: Mapping[int, datetime], note: str) -> None:
    """Locks these pools by id; none of them gives a session before that time, if one is said, and while jobs are undecided."""
    fetch(_LOCK, [list(pool_ids)])
    times = {str(pool_id): at.isoformat() for pool_id, at in until.items()}
    fetch(_CLOSE_AGAIN, {"pools": list(pool_ids), "until": json.dumps(times), "note": note})


def quarantined() -> list[Row]:
    """Pools that are closed since a restore: id, name, quarantined_at, quarantined_until, quarantine_note, is_over, undecided
    (jobs).
    """
    return fetch(_STANDING)


def open_pool(pool_id: int) -> list[Row]:
    """Opens the pool when its time has come and nothing is undecided; the row (id, name) when it was opened now.

    Locks its sessions, then the pool.
    """
    quarantine.lock_sessions(pool_id)
    rows = fetch(_OPEN, [pool_id])
    for row in rows:
        quarantine.open_sessions(row["id"])
    return rows


def affected(pool_id: int) -> Row:
    """Jobs that the opening of the pool concerns: waiting, under_way; and now, the time of it."""
    return fetch(_AFFECTED, [pool_id])[0]


def given_up(pool_id: int, since: datetime) -> int:
    """Jobs of the pool that failed since then because nobody can tell whether they ran."""
    return int(fetch(_GIVEN_UP, [pool_id, since])[0]["jobs"])
