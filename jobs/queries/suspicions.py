"""Jobs that commits which were lost may have sent: which they are, what is needed to ask for them, and what was decided."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings

from jobs.states import JOB
from pool.states import RESOURCE
from statemachine.sql import Row, fetch

MOST = 200  # suspicions looked at in one round
_TO_BE_RESENT = "s.decided = 'same_key' AND s.attempt_id IS NULL"  # the key it had was not sent again yet
# Of a job as `t`.
IS_SUSPECTED = f"""EXISTS (SELECT FROM jobs_suspicion s WHERE s.job_id = t.id
                             AND (s.decided_at IS NULL OR {_TO_BE_RESENT}))"""

# One that waits for a time which has not come yet was not sent before it, by a clock that may have been ahead of ours.
_SUSPECT = """
WITH suspected AS (
    INSERT INTO jobs_suspicion (job_id, pool_id, since, look_at, asks_failed, decided)
    SELECT id, pool_id, clock_timestamp(), clock_timestamp(), 0, '' FROM jobs_job
    WHERE state IN ('assigned', 'processing')
       OR (state = 'pending' AND (due_at IS NULL OR unaffordable OR due_at <= clock_timestamp() + interval '1 minute'))
    ON CONFLICT (job_id) DO UPDATE SET since = EXCLUDED.since, look_at = EXCLUDED.look_at, asks_failed = 0, decided = '',
           called = CASE WHEN jobs_suspicion.decided_at IS NULL AND jobs_suspicion.called <> '' THEN 'otherwise' ELSE '' END,
           decided_at = NULL, attempt_id = NULL
    RETURNING 1)
SELECT count(*) AS jobs FROM suspected"""

# Unless it is said since when nothing was sent any more, a worker of before sends what it intended until its lease ends.
_LOOKED_AT = f"""
SELECT s.job_id, s.since, s.pool_id, s.asks_failed, s.called, j.state, j.attempts, j.max_attempts, j.run, j.payload, j.metadata,
       jt.name AS type, jt.upstream::text AS type_upstream, jt.delivery, jt.max_runtime_ms, tt.name AS tenant,
       p.upstream::text AS pool_upstream,
       (extract(epoch FROM clock_timestamp() - COALESCE(
            (SELECT quiet_since FROM pool_restoration ORDER BY at DESC, id DESC LIMIT 1),
            s.since + make_interval(secs => {settings.LEASE_SECONDS}))) * 1000)::float8 AS quiet_ms,
       (SELECT count(*) FROM pool_upstreamaccount u WHERE u.pool_id = s.pool_id) AS accounts
FROM {{suspicions}} s JOIN jobs_job j ON j.id = s.job_id JOIN jobs_jobtype jt ON jt.id = j.type_id
JOIN tenants_tenant tt ON tt.id = j.tenant_id JOIN pool_pool p ON p.id = s.pool_id"""
_IS_DUE = "s.pool_id = p.id AND s.decided_at IS NULL AND s.look_at <= clock_timestamp()"
# Each pool has its share, and whose is looked at first is drawn each time: one that answers nobody keeps no other waiting.
_DUE = f"""
WITH pools AS MATERIALIZED (
    SELECT p.id, count(*) OVER () AS n FROM pool_pool p
    WHERE p.quarantined_at IS NOT NULL AND EXISTS (SELECT FROM jobs_suspicion s WHERE {_IS_DUE})),
due AS MATERIALIZED (
    SELECT l.* FROM pools p CROSS JOIN LATERAL (
        SELECT s.job_id, s.since, s.pool_id, s.asks_failed, s.called, s.look_at FROM jobs_suspicion s WHERE {_IS_DUE}
        ORDER BY s.look_at, s.job_id LIMIT GREATEST(1, {MOST} / p.n) FOR NO KEY UPDATE SKIP LOCKED) l)
{_LOOKED_AT.format(suspicions="due")}
ORDER BY row_number() OVER (PARTITION BY s.pool_id ORDER BY s.look_at, s.job_id), random(), s.job_id"""
_UNDECIDED = f"""{_LOOKED_AT.format(suspicions="jobs_suspicion")}
WHERE s.decided_at IS NULL AND s.pool_id = %s ORDER BY s.job_id LIMIT {MOST}"""
_LATER = """
UPDATE jobs_suspicion s SET look_at = clock_timestamp() + make_interval(secs => v.pause_ms / 1000.0),
       asks_failed = CASE WHEN v.failed < 0 THEN 0 ELSE s.asks_failed + v.failed END
FROM jsonb_to_recordset(%s::jsonb) AS v(job_id uuid, since timestamptz, pause_ms float8, failed int)
WHERE s.job_id = v.job_id AND s.since = v.since AND s.decided_at IS NULL"""
# In the order of their ids: a sweep and an operator may decide of the same ones. Of what was suspected anew since somebody
# looked, his answers say nothing.
_SEEN = """(job_id, since) IN (
        SELECT v.job_id, v.since FROM jsonb_to_recordset(%s::jsonb) AS v(job_id uuid, since timestamptz))"""
_DECIDE = """
WITH undecided AS (
    SELECT job_id FROM jobs_suspicion WHERE {which} AND decided_at IS NULL ORDER BY job_id FOR NO KEY UPDATE)
UPDATE jobs_suspicion s SET decided = %s, decided_at = clock_timestamp(), attempt_id = %s
FROM undecided u WHERE s.job_id = u.job_id"""
# Of a suspicion as `s`, its job and pool: a key that may be known elsewhere too, while nothing was sent for it.
_PLACES_MATTER = f"""j.state IN {JOB.guard("assign")} AND (s.pool_id = ANY(%(pools)s) OR j.type_id = ANY(%(types)s))
    AND ({_TO_BE_RESENT} OR (s.decided IN ('', 'never_sent') AND p.quarantined_at IS NOT NULL))"""
_WHERE_PLACES_MATTER = f"""
SELECT DISTINCT s.pool_id FROM jobs_suspicion s JOIN jobs_job j ON j.id = s.job_id JOIN pool_pool p ON p.id = s.pool_id
WHERE {_PLACES_MATTER} ORDER BY 1"""
# Whoever is asking the others names what he has seen, and decides nothing. One that was asked for where calls went before is
# asked for where they go now; of any other a denial there says nothing of what was sent before.
_LOOK_ANEW = f"""
WITH anew AS (
    SELECT s.job_id, s.pool_id = ANY(%(pools_otherwise)s) OR j.type_id = ANY(%(types_otherwise)s) AS otherwise
    FROM jobs_suspicion s JOIN jobs_job j ON j.id = s.job_id JOIN pool_pool p ON p.id = s.pool_id
    WHERE {_PLACES_MATTER} ORDER BY s.job_id FOR NO KEY UPDATE OF s)
UPDATE jobs_suspicion s SET decided = '', decided_at = NULL, asks_failed = 0, look_at = clock_timestamp(),
       called = CASE WHEN anew.otherwise AND s.decided <> 'never_sent' OR s.called <> '' THEN 'otherwise' ELSE '' END,
       since = s.since + interval '1 microsecond'
FROM anew WHERE s.job_id = anew.job_id"""
_DENIED = f"""
UPDATE jobs_suspicion SET called = 'denied' WHERE {_SEEN} AND decided_at IS NULL AND called = 'otherwise'"""
_STILL = f"""
SELECT s.job_id, s.since FROM jobs_suspicion s JOIN jobs_job j ON j.id = s.job_id
WHERE {_SEEN} AND s.decided_at IS NULL AND j.state IN {JOB.guard("expire")}
ORDER BY s.job_id FOR NO KEY UPDATE OF s"""
_RESENT_LAPSED = f"""
SELECT s.job_id FROM jobs_suspicion s JOIN jobs_attempt a ON a.job_id = s.job_id
WHERE s.job_id = ANY(%s) AND {_TO_BE_RESENT} AND a.ended_at IS NULL AND a.lease_until <= clock_timestamp()
ORDER BY s.job_id"""

_ACCOUNTS = """
SELECT u.id AS account_id, u.name AS account, u.sealed_credential, u.labels, u.vars, u.base_url, u.pool_id,
       u.tracked_since IS NOT NULL AND p.tracks_credits AS pays
FROM pool_upstreamaccount u JOIN pool_pool p ON p.id = u.pool_id WHERE u.pool_id = ANY(%s) ORDER BY u.id"""

# Whoever wants one to rest wants that nothing begins on it. One that is awake goes first.
_RESTS = f"r.state IN {RESOURCE.guard('release')}"
_SESSION = f"""
SELECT r.id, r.account_id, r.fence, {_RESTS} AS rests FROM pool_resource r
WHERE r.account_id = %s AND (r.state IN {RESOURCE.guard("reserve")} OR {_RESTS})
ORDER BY rests, r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"""
_STANDS = f"""
SELECT j.id, j.pool_id, j.run, j.attempts, j.cost, COALESCE(j.turn, p.virtual_time) AS turn
FROM jobs_job j JOIN pool_pool p ON p.id = j.pool_id JOIN jobs_suspicion s ON s.job_id = j.id
WHERE j.id = %s AND s.since = %s AND j.state IN {JOB.guard("assign")} AND s.decided_at IS NULL"""
_GIVE_TURN = "UPDATE jobs_job SET turn = %s, due_at = NULL, unaffordable = false WHERE id = %s"
# What an account has that is not offline gets free once.
_GETS_FREE = "SELECT 1 AS yes FROM pool_resource WHERE account_id = %s AND state <> 'offline' LIMIT 1"
# Numbers before the one that is taken up; nothing else will use them.
_SKIPPED = """
INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict, error_class,
                          error_code, error_message, reference, holder, sendings, ended_at, finished_at)
SELECT %(job)s::uuid, %(resource)s::bigint, %(account)s::bigint, %(run)s::int, v.number,
       'job.' || %(job)s::uuid || '.a' || v.number, %(fence)s::bigint + v.number - %(first)s::int, 'ended', v.verdict, '',
       'restored', v.message, '', '', 0, clock_timestamp(), clock_timestamp()
FROM jsonb_to_recordset(%(skipped)s::jsonb) AS v(number int, verdict text, message text) ORDER BY v.number"""


def suspect() -> int:
    """Every job that may have been sent by a commit that was lost; how many there are."""
    return int(fetch(_SUSPECT)[0]["jobs"])


def due() -> list[Row]:
    """Locks suspicions that are to be looked at, as many of each closed pool, passing over those that others have. In turns of
    the pools, of each those first that have waited longest.
    """
    return fetch(_DUE)


def any_due() -> bool:
    """Whether there are any."""
    return bool(
        fetch("""SELECT 1 AS yes FROM jobs_suspicion s JOIN pool_pool p ON p.id = s.pool_id
                 WHERE s.decided_at IS NULL AND s.look_at <= clock_timestamp() AND p.quarantined_at IS NOT NULL LIMIT 1""")
    )


def undecided(pool_id: int) -> list[Row]:
    """Jobs of the pool about which it is not decided whether they were sent, as of `due`. Locks nothing."""
    return fetch(_UNDECIDED, [pool_id])


def later(rows: Sequence[Row]) -> None:
    """These are looked at after a pause: {job_id, since, pause_ms, failed}, the last added to the askings in a row that decided
    nothing; -1: only a session is missing, which ends the row.
    """
    fetch(_LATER, [json.dumps(rows, default=str)])


def decide(word: str, seen: Iterable[Row], attempt_id: int | None = None) -> None:
    """What came of these suspicions, {job_id, since} as they were seen; one that is decided stays so, and one that is of a
    later restore by now. Locks them by id.
    """
    fetch(_DECIDE.format(which=_SEEN), [_named(seen), word, attempt_id])


def decide_all(word: str, pool_id: int) -> None:
    """The same of every one of the pool."""
    fetch(_DECIDE.format(which="pool_id = %s"), [pool_id, word, None])


def where_places_matter(pool_ids: Collection[int], type_ids: Collection[int]) -> list[int]:
    """Pools with jobs that wait, in these pools or of these types, which may be known at a place that is declared only now."""
    return [row["pool_id"] for row in fetch(_WHERE_PLACES_MATTER, {"pools": list(pool_ids), "types": list(type_ids)})]


def look_anew(
    pools: Collection[int], types: Collection[int], pools_otherwise: Collection[int], types_otherwise: Collection[int]
) -> None:
    """Nothing is decided any more of such jobs of all these, whose pools are closed. `…_otherwise`: from now on they are called
    otherwise, so of those that nobody asked for yet a denial decides nothing, nor are they sent under the key they had.
    Locks the suspicions by id.
    """
    otherwise = {"pools_otherwise": list(pools_otherwise), "types_otherwise": list(types_otherwise)}
    fetch(_LOOK_ANEW, {"pools": [*pools, *pools_otherwise], "types": [*types, *types_otherwise], **otherwise})


def denied(seen: Iterable[Row]) -> None:
    """Nobody knows these, {job_id, since} as they were seen, where they are sent now; they were called otherwise before."""
    fetch(_DENIED, [_named(seen)])


def still_waiting(seen: Iterable[Row]) -> list[Row]:
    """Locks these suspicions, {job_id, since} of (locked) jobs, by id: of those that wait, and about which nobody has decided
    meanwhile.
    """
    return fetch(_STILL, [_named(seen)])


def to_be_resent(job_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these (locked) jobs whose assigned attempt has a key that lost commits may have sent, and whose lease ended."""
    return [row["job_id"] for row in fetch(_RESENT_LAPSED, [list(job_ids)])]


def accounts(pool_ids: Sequence[int]) -> list[Row]:
    """The accounts of these pools, with what a call needs of them."""
    return fetch(_ACCOUNTS, [list(pool_ids)])


def stands(seen: Row) -> Row | None:
    """This (locked) job, while it waits under the suspicion {job_id, since}."""
    return next(iter(fetch(_STANDS, [seen["job_id"], seen["since"]])), None)


def session_of(account_id: int) -> Row | None:
    """Locks a session of the account on which nothing runs; draining ones too, and those at rest (`rests`), since the work is
    there already.
    """
    return next(iter(fetch(_SESSION, [account_id])), None)


def gets_free(account_id: int) -> bool:
    """Whether waiting for a session of the account is of any use."""
    return bool(fetch(_GETS_FREE, [account_id]))


def give_turn(job_id: UUID, turn: float) -> None:
    """This (locked) job runs, so it has its turn."""
    fetch(_GIVE_TURN, [turn, job_id])


def skip_numbers(job: Row, session: Row, skipped: Sequence[dict[str, Any]]) -> int:
    """Attempts that only the lost commits knew, ended: {number, verdict, message} of each number from the job's next on, in
    their order; the fence that comes after theirs.
    """
    first, fence = job["attempts"] + 1, session["fence"] + 1
    given = {"job": job["id"], "resource": session["id"], "account": session["account_id"], "run": job["run"]}
    fetch(_SKIPPED, {**given, "first": first, "fence": fence, "skipped": json.dumps(skipped)})
    after: int = fence + len(skipped)
    return after


def _named(seen: Iterable[Row]) -> str:
    return json.dumps([{"job_id": row["job_id"], "since": row["since"]} for row in seen], default=str)
