"""Dead letters by what is said of them, in the order in which they failed; and the progress of what runs them again."""

from datetime import datetime
from typing import Any
from uuid import UUID

from statemachine.sql import Row, fetch

MOST_READ = 500  # letters of one question, fitting or not, so that a rare code does not make it long
MOST_COUNTED = 10_000  # letters read to count those that fit
MOST_TOLD = 100  # redrives

# One walk along the index `job_dead_letter` for each pool; what was read last is the place to go on from.
_LETTERS = """
SELECT l.*, {fits} AS fits FROM (
    SELECT j.id, j.pool_id, j.type_id, j.tenant_id, j.version, j.finished_at, j.price, j.error ->> 'code' AS code
    FROM pool_pool p CROSS JOIN LATERAL (
        SELECT * FROM jobs_job d
        WHERE d.pool_id = p.id AND d.state = 'failed' AND d.dismissed_at IS NULL
          AND (d.finished_at, d.id) > (%(after)s::timestamptz, %(after_id)s::uuid) AND d.finished_at < %(before)s::timestamptz
        ORDER BY d.finished_at, d.id LIMIT {most}) j
    WHERE %(pool)s::text IS NULL OR p.name = %(pool)s::text
    ORDER BY j.finished_at, j.id LIMIT {most}) l"""
_FITS = """((%(code)s::text IS NULL OR l.code = %(code)s::text)
    AND (%(type)s::text IS NULL OR l.type_id = (SELECT id FROM jobs_jobtype WHERE name = %(type)s::text))
    AND (%(tenant)s::text IS NULL OR l.tenant_id = (SELECT id FROM tenants_tenant WHERE name = %(tenant)s::text)))"""
_NEXT = f"{_LETTERS.format(fits=_FITS, most=MOST_READ)} ORDER BY l.finished_at, l.id"
_COUNT = f"""
SELECT y.name AS type, t.name AS tenant, f.code, f.jobs, f.price, f.read
FROM (SELECT type_id, tenant_id, code, count(*) FILTER (WHERE fits) AS jobs,
             coalesce(sum(price) FILTER (WHERE fits), 0)::bigint AS price, sum(count(*)) OVER ()::bigint AS read
      FROM ({_LETTERS.format(fits=_FITS, most=MOST_COUNTED)}) found GROUP BY type_id, tenant_id, code) f
JOIN jobs_jobtype y ON y.id = f.type_id JOIN tenants_tenant t ON t.id = f.tenant_id
ORDER BY f.jobs DESC, y.name, t.name, f.code"""

# Those that run by their index: a long one may be older than MOST_TOLD others.
_PROGRESS = f"""
(SELECT id, state, replayed, refused FROM jobs_redrive WHERE state = 'running' ORDER BY id DESC LIMIT {MOST_TOLD})
UNION ALL
(SELECT id, state, replayed, refused FROM (SELECT * FROM jobs_redrive ORDER BY id DESC LIMIT {MOST_TOLD}) newest
 WHERE state <> 'running' AND ended_at > clock_timestamp() - interval '1 hour')
ORDER BY id"""
_LOCK = """
SELECT id, rate, most, replayed, seen_at, seen_id, paced_until <= clock_timestamp() AS may
FROM jobs_redrive WHERE id = %s AND state = 'running' FOR NO KEY UPDATE SKIP LOCKED"""
# What is made up for of a pause is bounded. Also where nothing of the rate is used: who waits longest is known by it.
_PACED = "GREATEST(paced_until, clock_timestamp() - make_interval(secs => %s))"
_REPLAYED = f"""
UPDATE jobs_redrive SET replayed = replayed + 1, seen_at = %s, seen_id = %s,
       paced_until = {_PACED} + make_interval(secs => 1 / rate)
WHERE id = %s"""
_REFUSED = f"""
UPDATE jobs_redrive SET refused = refused + 1, seen_at = %s, seen_id = %s, paced_until = {_PACED},
       reasons = reasons || jsonb_build_object(%s::text, 1 + coalesce((reasons ->> %s::text)::int, 0))
WHERE id = %s"""
_PASSED = f"UPDATE jobs_redrive SET seen_at = %s, seen_id = %s, paced_until = {_PACED} WHERE id = %s"
_POSTPONE = """
UPDATE jobs_redrive SET paced_until = GREATEST(paced_until, clock_timestamp() + make_interval(secs => %s)) WHERE id = %s"""
_END = """
UPDATE jobs_redrive SET state = %s, ended_at = clock_timestamp(), ended_by = %s
WHERE id = %s AND state = 'running' RETURNING id"""
_END_ALL = """
WITH running AS (SELECT id FROM jobs_redrive WHERE state = 'running' ORDER BY id FOR NO KEY UPDATE)
UPDATE jobs_redrive r SET state = %s, ended_at = clock_timestamp(), ended_by = %s FROM running WHERE r.id = running.id
RETURNING r.id"""


def next_of(said: dict[str, Any], seen_at: datetime | None, seen_id: UUID | None, before: datetime) -> list[Row]:
    """The next MOST_READ dead letters that failed before `before`: id, version, finished_at, code, fits (`said` is true of
    it: code, type, pool, tenant, since, until, each or None). Fewer than that: there are no more.
    """
    return fetch(_NEXT, _terms(said, seen_at, seen_id, before))


def count(
    said: dict[str, Any], seen_at: datetime | None = None, seen_id: UUID | None = None, before: datetime | None = None
) -> tuple[list[Row], bool]:
    """Dead letters of which `said` is true, by type, tenant and code (jobs, price in micro-credits), most first; and whether
    these are all: at most MOST_COUNTED are read.
    """
    rows = fetch(_COUNT, _terms(said, seen_at, seen_id, before))
    return [row for row in rows if row["jobs"]], not rows or rows[0]["read"] < MOST_COUNTED


def due() -> list[int]:
    """Redrives that run and whose rate allows the next; the one that waited longest first."""
    rows = fetch("""SELECT id FROM jobs_redrive WHERE state = 'running' AND paced_until <= clock_timestamp()
                    ORDER BY paced_until, id""")
    return [row["id"] for row in rows]


def progress() -> list[Row]:
    """Redrives that run, and of the newest MOST_TOLD those that ended within the hour; at most MOST_TOLD of each: id, state,
    replayed, refused.
    """
    return fetch(_PROGRESS)


def lock(redrive_id: int) -> Row | None:
    """A running redrive: most, replayed, seen_at, seen_id, may (its rate allows one more). None: it ended, or another has
    it in hand.
    """
    return next(iter(fetch(_LOCK, [redrive_id])), None)


def replayed(redrive_id: int, letter: Row, slack_seconds: float) -> None:
    """One more of a (locked) redrive runs again."""
    fetch(_REPLAYED, [letter["finished_at"], letter["id"], slack_seconds, redrive_id])


def refused(redrive_id: int, letter: Row, why: str, slack_seconds: float) -> None:
    """One more of a (locked) redrive stays a dead letter."""
    fetch(_REFUSED, [letter["finished_at"], letter["id"], slack_seconds, why, why, redrive_id])


def passed(redrive_id: int, letter: Row, slack_seconds: float) -> None:
    """A (locked) redrive has looked at all letters up to this one."""
    fetch(_PASSED, [letter["finished_at"], letter["id"], slack_seconds, redrive_id])


def postpone(redrive_id: int, seconds: int) -> None:
    """Nothing runs again by it before so long from now."""
    fetch(_POSTPONE, [seconds, redrive_id])


def end(redrive_id: int, state: str, by: str = "") -> bool:
    """Ends a redrive; False when it had ended. Waits for a replay that may be under way."""
    return bool(fetch(_END, [state, by, redrive_id]))


def end_all(state: str, by: str) -> int:
    """Ends all that run; how many. Locks them by id, and waits for a replay of each that may be under way."""
    return len(fetch(_END_ALL, [state, by]))


def _terms(said: dict[str, Any], seen_at: datetime | None, seen_id: UUID | None, before: datetime | None) -> Row:
    limits = [at for at in (before, said.get("until")) if at is not None]
    since = said.get("since")
    return {
        **{name: said.get(name) for name in ("code", "type", "pool", "tenant")},
        "after": seen_at or since or "-infinity",
        "after_id": seen_id or UUID(int=0),
        "before": min(limits, default="infinity"),
    }
