"""How full the pools are, counted from rows and in bounds: no question here grows with the number of finished jobs."""

import threading
import time
from collections.abc import Callable, Sequence

from django.db import Error, OperationalError, transaction

from jobs.queries import line, pace
from statemachine.sql import Row, fetch

MOST_COUNTED = 100_000  # waiting jobs; beyond it a depth says "at least"
MOST_TIMED = 10_000  # of those that wait for a time: each is read from the table, not only from its index
MOST_DEAD = 10_000  # dead letters of one pool
LONGEST_WAIT_SECONDS = 2.0  # for somebody else's count
LONGEST_SECONDS = 3  # of one question: who asks often must not wait for long

# Each part is served by its own partial index, and stops at a limit. Ready jobs are counted in `job_line` alone; only
# the first to arrive in each pool is looked up.
_READY = "state = 'pending' AND turn IS NULL AND due_at IS NULL"
_WAITING = f"""
WITH lines AS MATERIALIZED ({{lines}}),
pools AS (
    SELECT DISTINCT ON (pool_id) tenant_id, pool_id, priority, arrival, sum(jobs) OVER (PARTITION BY pool_id) AS jobs
    FROM lines ORDER BY pool_id, arrival)
SELECT p.pool_id, p.jobs::bigint AS jobs,
       (SELECT j.queued_at FROM jobs_job j WHERE j.tenant_id = p.tenant_id AND j.pool_id = p.pool_id
        AND j.priority = p.priority AND j.arrival = p.arrival AND {_READY} LIMIT 1) AS oldest
FROM pools p"""
_ALL_LINES = f"""
    SELECT tenant_id, pool_id, priority, count(*) AS jobs, min(arrival) AS arrival FROM (
        SELECT tenant_id, pool_id, priority, arrival FROM jobs_job WHERE {_READY}
        ORDER BY tenant_id, pool_id, priority DESC, arrival LIMIT {MOST_COUNTED}) ready
    GROUP BY tenant_id, pool_id, priority"""
# With more waiting than that, each line is counted up to its part, so that one long line hides no other.
_EACH_LINE = f"""
    SELECT l.tenant_id, l.pool_id, c.priority, c.jobs, c.arrival
    FROM unnest(%(tenants)s::bigint[], %(pools)s::bigint[]) AS l (tenant_id, pool_id)
    CROSS JOIN LATERAL (
        SELECT priority, count(*) AS jobs, min(arrival) AS arrival FROM (
            SELECT priority, arrival FROM jobs_job
            WHERE tenant_id = l.tenant_id AND pool_id = l.pool_id AND {_READY}
            ORDER BY priority DESC, arrival LIMIT %(most)s) ready
        GROUP BY priority) c"""
_TIMED = f"""
SELECT pool_id, count(*) AS jobs, count(*) FILTER (WHERE unaffordable) AS unaffordable,
       count(*) FILTER (WHERE due_at > clock_timestamp() AND NOT unaffordable) AS delayed,
       min(GREATEST(queued_at, due_at)) FILTER (WHERE due_at <= clock_timestamp()) AS oldest
FROM (SELECT pool_id, due_at, queued_at, unaffordable FROM jobs_job WHERE state = 'pending' AND due_at IS NOT NULL
      ORDER BY due_at LIMIT {MOST_TIMED}) timed
GROUP BY pool_id"""
_STANDING = """
SELECT pool_id, state, count(*) AS jobs, min(queued_at) FILTER (WHERE state = 'pending') AS oldest
FROM jobs_job WHERE turn IS NOT NULL AND state IN ('pending', 'assigned', 'processing')
GROUP BY pool_id, state"""
_SESSIONS = """
SELECT r.pool_id, r.state, count(*) AS sessions,
       count(*) FILTER (WHERE r.state = 'available' AND r.accepting AND p.quarantined_at IS NULL) AS free
FROM pool_resource r JOIN pool_pool p ON p.id = r.pool_id GROUP BY r.pool_id, r.state"""
_DEAD = f"""
SELECT p.id AS pool_id, (SELECT count(*) FROM (
    SELECT FROM jobs_job j WHERE j.pool_id = p.id AND j.state = 'failed' AND j.dismissed_at IS NULL
    ORDER BY j.finished_at LIMIT {MOST_DEAD}) dead) AS jobs
FROM pool_pool p"""
_OPEN = """
SELECT r.pool_id, count(*) FILTER (WHERE a.verdict = 'unknown') AS unknown,
       extract(epoch FROM clock_timestamp() - min(a.opened_at))::float AS oldest_seconds
FROM jobs_attempt a JOIN pool_resource r ON r.id = a.resource_id WHERE a.ended_at IS NULL GROUP BY r.pool_id"""
_ATTENTION = """
SELECT j.pool_id, count(*) AS jobs FROM credits_holdreview r
JOIN credits_hold h ON h.id = r.hold_id AND h.status = 'open' JOIN jobs_job j ON j.id = h.job_id
WHERE r.needs_attention_since IS NOT NULL GROUP BY j.pool_id"""
_EACH_SESSION = """
SELECT r.id, r.pool_id, r.account_id, a.name AS account, r.number, r.state, r.accepting, r.available_at,
       COALESCE(NULLIF(CASE WHEN r.state IN ('offline', 'cooldown') THEN r.reason END, ''), r.note) AS reason,
       CASE WHEN r.state IN ('reserved', 'busy') THEN r.job_id END AS job_id
FROM pool_resource r JOIN pool_upstreamaccount a ON a.id = r.account_id
WHERE r.pool_id = ANY(%s) ORDER BY a.name, r.number, r.id LIMIT %s"""


def filling() -> list[Row]:
    """Per pool what its tenants may know: id, name, accepting, quarantined_until, jobs {pending, assigned, processing},
    sessions {state: number}, and what is made of them: depth, delayed and unaffordable (jobs), lag_seconds,
    oldest_waiting_seconds, free_sessions, utilisation.

    `depth` are all that wait (at least so many, where `depth_exact` is False), `delayed` those of them that are due later,
    `unaffordable` those that wait until an upstream account can pay for them: neither is counted in the other.
    `lag_seconds` is the age of the oldest job whose turn it is, `oldest_waiting_seconds` of the oldest that could run. A
    job with a turn is counted once, in its state. `free_sessions` could be given to a job now (none of a pool that
    is closed since a restore); `utilisation` are the busy ones of those that are not offline.
    """
    (waiting, exact), timed = _waiting(), fetch(_TIMED)
    standing, by_state = fetch(_STANDING), fetch(_SESSIONS)
    exact = exact and sum(row["jobs"] for row in timed) < MOST_TIMED
    # The pools come last: one that is made meanwhile is then known to every row above.
    found = fetch(
        "SELECT id, name, accepting, quarantined_until, clock_timestamp() AS now FROM pool_pool ORDER BY name"
    )
    pools = {row["id"]: _empty(row) for row in found}
    for row in (*waiting, *timed):
        pool = pools[row["pool_id"]]
        pool["jobs"]["pending"] += row["jobs"]
        for name in ("delayed", "unaffordable"):
            pool[name] += row.get(name, 0)
        _grow(pool, ("oldest_waiting_seconds",), row)
    for row in standing:
        pools[row["pool_id"]]["jobs"][row["state"]] += row["jobs"]
        _grow(pools[row["pool_id"]], ("lag_seconds", "oldest_waiting_seconds"), row)
    for row in by_state:
        pools[row["pool_id"]]["sessions"][row["state"]] = row["sessions"]
        pools[row["pool_id"]]["free_sessions"] += row["free"]
    for pool in pools.values():
        pool["depth"], pool["depth_exact"] = pool["jobs"]["pending"], exact
        pool["utilisation"] = _utilisation(pool["sessions"])
        del pool["now"]
    return list(pools.values())


def by_pool() -> list[Row]:
    """`filling`, and per pool what operators look at: dead_letters, unknown (attempts being found out),
    oldest_running_seconds (since the oldest attempt that is open was opened), needs_attention (jobs that nobody but an
    operator can end), and lately
    throughput_per_second, handoff_p50_ms and handoff_p99_ms (None when nothing was handed on).
    """
    pools = {pool["id"]: pool for pool in filling()}
    dead = {row["pool_id"]: row["jobs"] for row in fetch(_DEAD)}
    running = {row["pool_id"]: row for row in fetch(_OPEN)}
    attention = {row["pool_id"]: row["jobs"] for row in fetch(_ATTENTION)}
    throughput, handoff = pace.throughput(), pace.handoff()
    for pool_id, pool in pools.items():
        pool["dead_letters"] = dead.get(pool_id, 0)
        pool["unknown"] = running[pool_id]["unknown"] if pool_id in running else 0
        pool["oldest_running_seconds"] = max(0.0, running[pool_id]["oldest_seconds"]) if pool_id in running else 0.0
        pool["needs_attention"] = attention.get(pool_id, 0)
        pool["throughput_per_second"] = throughput.get(pool_id, 0.0)
        pool["handoff_p50_ms"], pool["handoff_p99_ms"] = handoff.get(pool_id, (None, None))
    return list(pools.values())


def sessions(pool_ids: Sequence[int], limit: int) -> list[Row]:
    """One row per session by account and number: id, pool_id, account_id, account, number, state, accepting, job_id (of
    the job that has it now), available_at, reason (why it rests, is offline, or will be). At most `limit`.
    """
    return fetch(_EACH_SESSION, [list(pool_ids), limit])


class Recent:
    """What `count` returns, at most `seconds` old: however many ask at once, it is counted once."""

    def __init__(self, seconds: float, count: Callable[[], list[Row]] = by_pool) -> None:
        self.seconds = seconds
        self._count = count
        self._counting = threading.Lock()
        self._rows: list[Row] = []
        self._failure: Error | None = None
        self._until = 0.0

    def rows(self) -> list[Row]:
        """The rows; one who finds them old counts, the others wait for it, but not long. Raises what the count raised.

        A count that failed is not tried again at once: whoever asks meanwhile is told the same.
        """
        if not self._counting.acquire(timeout=LONGEST_WAIT_SECONDS):
            raise OperationalError("the pools are being counted, which takes long")
        try:
            if time.monotonic() >= self._until:
                self._failure = None
                try:
                    with transaction.atomic():
                        _bound()
                        self._rows = self._count()
                except Error as error:
                    self._failure = error
                self._until = time.monotonic() + self.seconds
            if self._failure is not None:
                raise self._failure
            return self._rows
        finally:
            self._counting.release()

    def forget(self) -> None:
        """The next who asks counts anew."""
        self._until = 0.0


def _waiting() -> tuple[list[Row], bool]:
    """Ready jobs without a turn by pool, and whether that is all of them."""
    rows = fetch(_WAITING.format(lines=_ALL_LINES))
    if sum(row["jobs"] for row in rows) < MOST_COUNTED:
        return rows, True
    lines = [(tenant_id, row["pool_id"]) for row in line.owed() for tenant_id in row["tenant_ids"]]
    tenants, pools = [tenant_id for tenant_id, _ in lines], [pool_id for _, pool_id in lines]
    most = max(1, MOST_COUNTED // max(1, len(lines)))
    return fetch(_WAITING.format(lines=_EACH_LINE), {"tenants": tenants, "pools": pools, "most": most}), False


def _bound() -> None:
    """For the rest of this transaction: no question takes long, and none is compiled first."""
    fetch("SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)", [f"{LONGEST_SECONDS}s"])


def _empty(row: Row) -> Row:
    jobs = {"pending": 0, "assigned": 0, "processing": 0}
    ages = {"lag_seconds": 0.0, "oldest_waiting_seconds": 0.0}
    return {**row, "jobs": jobs, "delayed": 0, "unaffordable": 0, **ages, "sessions": {}, "free_sessions": 0}


def _grow(pool: Row, names: Sequence[str], row: Row) -> None:
    if row["oldest"] is not None:
        age = max(0.0, (pool["now"] - row["oldest"]).total_seconds())
        for name in names:
            pool[name] = max(pool[name], age)


def _utilisation(sessions_by_state: dict[str, int]) -> float:
    usable = sum(number for state, number in sessions_by_state.items() if state != "offline")
    return sessions_by_state.get("busy", 0) / usable if usable else 0.0
