"""How full the pools are, counted from rows and in bounds: no question here grows with the number of finished jobs."""

import threading
import time

from statemachine.sql import Row, fetch

MOST_COUNTED = 100_000  # waiting jobs; beyond it a depth says "at least"

# Each part is served by its own partial index, and stops at MOST_COUNTED.
_WAITING = f"""
SELECT pool_id, count(*) AS jobs FROM (
    (SELECT pool_id FROM jobs_job WHERE state = 'pending' AND turn IS NULL AND due_at IS NULL LIMIT {MOST_COUNTED})
    UNION ALL
    (SELECT pool_id FROM jobs_job WHERE state = 'pending' AND due_at IS NOT NULL LIMIT {MOST_COUNTED})) waiting
GROUP BY pool_id"""
_STANDING = """
SELECT pool_id, state, count(*) AS jobs,
       EXTRACT(EPOCH FROM clock_timestamp() - min(created_at) FILTER (WHERE state = 'pending'))::float AS lag_seconds
FROM jobs_job WHERE turn IS NOT NULL AND state IN ('pending', 'assigned', 'processing')
GROUP BY pool_id, state"""
_SESSIONS = "SELECT pool_id, state, count(*) AS sessions FROM pool_resource GROUP BY pool_id, state"


def by_pool() -> list[Row]:
    """Per pool: id, name, accepting, jobs {pending, assigned, processing}, lag_seconds, sessions {state: number}.

    `lag_seconds` is the age of the oldest job whose turn it is. A job with a turn is counted once, in its state.
    """
    waiting, standing, sessions = fetch(_WAITING), fetch(_STANDING), fetch(_SESSIONS)
    # The pools come last: one that is made meanwhile is then known to every row above.
    rows = fetch("SELECT id, name, accepting FROM pool_pool ORDER BY name")
    pools = {
        row["id"]: {**row, "jobs": {"pending": 0, "assigned": 0, "processing": 0}, "lag_seconds": 0.0, "sessions": {}}
        for row in rows
    }
    for row in waiting:
        pools[row["pool_id"]]["jobs"]["pending"] += row["jobs"]
    for row in standing:
        pool = pools[row["pool_id"]]
        pool["jobs"][row["state"]] += row["jobs"]
        pool["lag_seconds"] = max(pool["lag_seconds"], row["lag_seconds"] or 0.0)
    for row in sessions:
        pools[row["pool_id"]]["sessions"][row["state"]] = row["sessions"]
    return list(pools.values())


class Recent:
    """`by_pool`, at most `seconds` old: however many ask at once, it is counted once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._counting = threading.Lock()
        self._rows: list[Row] = []
        self._until = 0.0

    def rows(self) -> list[Row]:
        """The rows; one who finds them old counts, the others wait for it."""
        with self._counting:
            if time.monotonic() >= self._until:
                self._rows = by_pool()
                self._until = time.monotonic() + self.seconds
            return self._rows

    def forget(self) -> None:
        """The next who asks counts anew."""
        self._until = 0.0
