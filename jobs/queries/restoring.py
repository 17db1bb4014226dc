"""After commits were lost: moving on whatever might be counted twice, closing pools, and which jobs may have been sent."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from jobs.states import ACCEPTED, CALLING, JOB
from pool.states import RESOURCE
from statemachine.sql import Row, fetch

JUMP = 2**32  # fences and numbers that the lost commits may have drawn: more than they can have been
VERSIONS = 1_000_000  # the same for the versions of one row
TOLD_DAYS = 30  # so long every answer of the API tells of a restore
MOST = 200  # suspicions looked at in one round

# In the lock order. EXCLUSIVE lets readers be and makes every writer wait. Whenever a claim that waits here took its snapshot,
# it reads the quarantine on the session that it locks.
_ALONE = "LOCK TABLE jobs_job, jobs_attempt, pool_resource, pool_pool IN EXCLUSIVE MODE"
_TIME = "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '30s', true)"

_SEQUENCES = f"""
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, COALESCE(last_value, start_value) + {JUMP})
FROM pg_sequences WHERE schemaname = current_schema() AND data_type = 'bigint'::regtype"""
_FENCES = f"UPDATE pool_resource SET fence = fence + {JUMP}, version = version + {VERSIONS}"
_CLOSE_SESSIONS = "UPDATE pool_resource SET quarantined = true WHERE NOT quarantined"
# What was calling may have been sent again since; a callback or a poll may bring news of what was accepted at once.
_ATTEMPTS = f"""
UPDATE jobs_attempt SET fence = fence + {JUMP},
       look_at = CASE WHEN phase = '{ACCEPTED}' THEN clock_timestamp() ELSE look_at END,
       called_at = CASE WHEN phase = '{CALLING}' THEN GREATEST(called_at, %s::timestamptz) ELSE called_at END
WHERE ended_at IS NULL RETURNING id, job_id, resource_id, fence, phase"""
_VERSIONS = f"""
UPDATE jobs_job SET version = version + {VERSIONS} WHERE state IN ('pending', 'assigned', 'processing')"""

_CLOSE = """
UPDATE pool_pool p SET quarantined_at = clock_timestamp(), quarantine_note = %(note)s,
       quarantined_until = GREATEST(p.quarantined_until, %(quiet)s::timestamptz + make_interval(secs => COALESCE(
           (SELECT max(t.max_runtime_ms) FROM jobs_jobtype t WHERE t.pool_id = p.id), 0) / 1000.0))
RETURNING p.id, p.name, p.quarantined_until"""

# One that waits for a time which has not come yet was not sent before it.
_SUSPECT = """
INSERT INTO jobs_suspicion (job_id, pool_id, since, look_at, asks_failed, decided)
SELECT id, pool_id, clock_timestamp(), clock_timestamp(), 0, '' FROM jobs_job
WHERE state IN ('assigned', 'processing')
   OR (state = 'pending' AND (due_at IS NULL OR unaffordable OR due_at <= clock_timestamp()))
ON CONFLICT (job_id) DO UPDATE SET since = EXCLUDED.since, look_at = EXCLUDED.look_at, asks_failed = 0, decided = '',
       decided_at = NULL, attempt_id = NULL
RETURNING job_id"""

_SUSPECTS = """
SELECT s.job_id, s.pool_id, s.asks_failed, j.state, j.attempts, j.max_attempts, j.run, j.payload, j.metadata,
       jt.name AS type, jt.upstream::text AS type_upstream, jt.delivery, jt.max_runtime_ms, tt.name AS tenant,
       p.upstream::text AS pool_upstream,
       (extract(epoch FROM clock_timestamp() - s.since) * 1000)::float8 AS age_ms,
       (SELECT count(*) FROM pool_upstreamaccount u WHERE u.pool_id = s.pool_id) AS accounts
FROM jobs_suspicion s JOIN jobs_job j ON j.id = s.job_id JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN tenants_tenant tt ON tt.id = j.tenant_id JOIN pool_pool p ON p.id = s.pool_id
WHERE s.decided_at IS NULL AND"""
_DUE = f"""{_SUSPECTS} s.look_at <= clock_timestamp() AND p.quarantined_at IS NOT NULL
ORDER BY s.look_at, s.job_id LIMIT {MOST} FOR NO KEY UPDATE OF s SKIP LOCKED"""
_UNDECIDED = f"{_SUSPECTS} s.pool_id = %s ORDER BY s.job_id LIMIT {MOST}"
_LATER = """
UPDATE jobs_suspicion s SET look_at = clock_timestamp() + make_interval(secs => v.pause_ms / 1000.0),
       asks_failed = s.asks_failed + v.failed
FROM jsonb_to_recordset(%s::jsonb) AS v(job_id uuid, pause_ms float8, failed int)
WHERE s.job_id = v.job_id AND s.decided_at IS NULL"""
_DECIDE = """
UPDATE jobs_suspicion SET decided = %s, decided_at = clock_timestamp(), attempt_id = %s
WHERE job_id = ANY(%s) AND decided_at IS NULL"""

_ACCOUNTS = """
SELECT u.id AS account_id, u.name AS account, u.sealed_credential, u.labels, u.vars, u.base_url, u.pool_id,
       u.tracked_since IS NOT NULL AND p.tracks_credits AS pays
FROM pool_upstreamaccount u JOIN pool_pool p ON p.id = u.pool_id WHERE u.pool_id = ANY(%s) ORDER BY u.id"""

_SESSION = f"""
SELECT r.id, r.account_id, r.fence FROM pool_resource r
WHERE r.account_id = %s AND r.state IN {RESOURCE.guard("reserve")} ORDER BY r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"""
_STANDS = f"""
SELECT j.id, j.pool_id, j.run, j.attempts, j.cost, COALESCE(j.turn, p.virtual_time) AS turn
FROM jobs_job j JOIN pool_pool p ON p.id = j.pool_id JOIN jobs_suspicion s ON s.job_id = j.id
WHERE j.id = %s AND j.state IN {JOB.guard("assign")} AND s.decided_at IS NULL"""
_GIVE_TURN = "UPDATE jobs_job SET turn = %s, due_at = NULL, unaffordable = false WHERE id = %s"
# Numbers that the lost commits used before the one that is known; nothing else will use them.
_SKIPPED = """
INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict, error_class,
                          error_code, error_message, reference, holder, sendings, ended_at, finished_at)
SELECT %(job)s::uuid, %(resource)s::bigint, %(account)s::bigint, %(run)s::int, n, 'job.' || %(job)s::uuid || '.a' || n,
       %(fence)s::bigint + n - %(first)s::int, 'ended',
       'not_executed', '', 'restored', 'its commits were lost; the upstream knows nothing of it', '', '', 0,
       clock_timestamp(), clock_timestamp()
FROM generate_series(%(first)s::int, %(last)s::int) n ORDER BY n"""

_LATELY = f"""
SELECT at, went_back_to FROM pool_restoration WHERE at > clock_timestamp() - interval '{TOLD_DAYS} days'
ORDER BY at DESC LIMIT 1"""
_OVER = "SELECT id FROM pool_pool WHERE quarantined_until <= clock_timestamp() ORDER BY id"
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
_OPEN_SESSIONS = "UPDATE pool_resource SET quarantined = false WHERE pool_id = ANY(%s) AND quarantined"
_PATIENCE = """
SELECT quarantined_until + make_interval(secs => %s) <= clock_timestamp() AS over FROM pool_pool WHERE id = %s"""


def be_alone() -> None:
    """Makes every other writer of jobs, attempts, sessions and pools wait until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(_TIME)
        cursor.execute(_ALONE)


def jump(quiet: datetime) -> list[Row]:
    """Fences, ids and versions go on beyond any that the lost commits drew; rows are the open attempts, with their new fences.

    `quiet`: when nothing was sent any more.
    """
    fetch(_SEQUENCES)
    fetch(_FENCES)
    fetch(_VERSIONS)
    return fetch(_ATTEMPTS, [quiet])


def now() -> datetime:
    """The database's time."""
    found: datetime = fetch("SELECT clock_timestamp() AS now")[0]["now"]
    return found


def close_pools(quiet: datetime, note: str) -> list[Row]:
    """No pool gives a session before the longest of its types has run since `quiet`; id, name, quarantined_until."""
    fetch(_CLOSE_SESSIONS)
    return fetch(_CLOSE, {"quiet": quiet, "note": note})


def suspect() -> int:
    """Every job that may have been sent by a commit that was lost; how many there are."""
    return len(fetch(_SUSPECT))


def due() -> list[Row]:
    """Locks suspicions that are to be looked at, passing over those that others have."""
    return fetch(_DUE)


def any_due() -> bool:
    """Whether there are any."""
    return bool(
        fetch("""SELECT 1 AS yes FROM jobs_suspicion s JOIN pool_pool p ON p.id = s.pool_id
                 WHERE s.decided_at IS NULL AND s.look_at <= clock_timestamp() AND p.quarantined_at IS NOT NULL LIMIT 1""")
    )


def later(rows: str) -> None:
    """These are looked at after a pause: JSON of {job_id, pause_ms, failed: 0 or 1}."""
    fetch(_LATER, [rows])


def decide(word: str, job_ids: Sequence[UUID], attempt_id: int | None = None) -> None:
    """What came of these suspicions; one that is decided stays so."""
    fetch(_DECIDE, [word, attempt_id, list(job_ids)])


def accounts(pool_ids: Sequence[int]) -> list[Row]:
    """The accounts of these pools, with what a call needs of them."""
    return fetch(_ACCOUNTS, [list(pool_ids)])


def stands(job_id: UUID) -> Row | None:
    """This (locked) job, while it waits under suspicion."""
    return next(iter(fetch(_STANDS, [job_id])), None)


def session_of(account_id: int) -> Row | None:
    """Locks a session of the account on which nothing runs; draining ones too, since the work is there already."""
    return next(iter(fetch(_SESSION, [account_id])), None)


def give_turn(job_id: UUID, turn: float) -> None:
    """This (locked) job runs, so it has its turn."""
    fetch(_GIVE_TURN, [turn, job_id])


def skip_numbers(job: Row, session: Row, last: int) -> int:
    """Attempts up to number `last` that only the lost commits knew, ended; the fence that comes after theirs."""
    first = job["attempts"] + 1
    given = {"job": job["id"], "resource": session["id"], "account": session["account_id"], "run": job["run"]}
    fetch(_SKIPPED, {**given, "first": first, "last": last, "fence": session["fence"] + 1})
    after: int = session["fence"] + 1 + max(0, last - first + 1)
    return after


def lately() -> list[Row]:
    """The last restore of the last 30 days, if there was one: at, went_back_to (None: it is not known)."""
    return fetch(_LATELY)


def over() -> list[int]:
    """Pools whose quarantine is over by its time."""
    return [row["id"] for row in fetch(_OVER)]


def quarantined() -> list[Row]:
    """Pools that are closed since a restore: id, name, quarantined_at, quarantined_until, quarantine_note, is_over, undecided
    (jobs).
    """
    return fetch(_STANDING)


def undecided(pool_id: int) -> list[Row]:
    """Jobs of the pool about which it is not decided whether they were sent, as of `due`. Locks nothing."""
    return fetch(_UNDECIDED, [pool_id])


def patience_is_over(pool_id: int, patience_seconds: float) -> bool:
    """Whether so long has passed since the pool should have opened."""
    return any(row["over"] for row in fetch(_PATIENCE, [patience_seconds, pool_id]))


def open_pool(pool_id: int) -> list[Row]:
    """Opens the pool when its time has come and nothing is undecided; the row (id, name) when it was opened now.

    Locks its sessions, then the pool.
    """
    fetch("SELECT id FROM pool_resource WHERE pool_id = %s ORDER BY id FOR NO KEY UPDATE", [pool_id])
    rows = fetch(_OPEN, [pool_id])
    fetch(_OPEN_SESSIONS, [[row["id"] for row in rows]])
    return rows


def end_quarantine_now(pool_id: int, note: str) -> bool:
    """An operator knows that nothing runs; False when the pool is open."""
    return bool(
        fetch(
            """UPDATE pool_pool SET quarantined_until = LEAST(quarantined_until, clock_timestamp()), quarantine_note = %s
               WHERE id = %s AND quarantined_at IS NOT NULL RETURNING id""",
            [note, pool_id],
        )
    )
