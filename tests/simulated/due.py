"""Which steps of the sweep have something to do now, and when the next will: the simulator's own question.

It is asked so that a simulated second in which nothing is due costs nothing. It is written apart from `jobs.queries.missed`:
where that overlooks what this sees, a job never ends, and the drain says so.
"""

from dataclasses import dataclass
from typing import Any

from tests.simulated import database

# What time alone brings; the others are hints that were lost.
OF_TIME = frozenset(
    {"unassign", "doubt", "verify", "cancel_upstream", "expire", "release", "replace_probes", "come_due"}
)

_DUE = """
SELECT step, extract(epoch FROM min(due) - simulated.now())::float8 FROM (
    SELECT CASE phase WHEN 'intended' THEN 'unassign' ELSE 'doubt' END, lease_until FROM jobs_attempt
    WHERE ended_at IS NULL AND lease_until IS NOT NULL
    UNION ALL
    SELECT 'verify', look_at FROM jobs_attempt WHERE ended_at IS NULL AND lease_until IS NULL
    UNION ALL
    SELECT 'cancel_upstream', cancel_at FROM jobs_attempt WHERE ended_at IS NULL AND cancel_at IS NOT NULL
    UNION ALL
    SELECT 'dispatch', opened_at + interval '710 ms' FROM jobs_attempt WHERE ended_at IS NULL AND phase = 'intended'
    UNION ALL
    SELECT 'finish', GREATEST(ended_at + interval '710 ms', look_at) FROM jobs_attempt
    WHERE ended_at IS NOT NULL AND finished_at IS NULL
    UNION ALL
    SELECT 'come_due', due_at FROM jobs_job WHERE state = 'pending' AND due_at IS NOT NULL
    UNION ALL
    SELECT 'expire', start_deadline FROM jobs_job
    WHERE state = 'pending' AND start_deadline IS NOT NULL AND started_at IS NULL
    UNION ALL
    SELECT 'promote', simulated.now() FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id
    WHERE state = 'pending' AND turn IS NULL AND due_at IS NULL AND (max_running IS NULL OR max_running > (
        SELECT count(*) FROM jobs_job o WHERE o.tenant_id = t.id AND o.pool_id = j.pool_id AND o.turn IS NOT NULL
        AND o.state IN ('pending', 'assigned', 'processing')))
    UNION ALL
    SELECT 'assign', simulated.now() FROM jobs_job j WHERE state = 'pending' AND turn IS NOT NULL AND EXISTS (
        SELECT FROM pool_resource r WHERE r.pool_id = j.pool_id AND r.state = 'available' AND r.accepting)
    UNION ALL
    SELECT 'release', available_at FROM pool_resource WHERE state = 'cooldown'
    UNION ALL
    SELECT 'replace_probes', open_until FROM pool_poolhealth WHERE open_until IS NOT NULL
    UNION ALL
    SELECT 'book_late', look_at + interval '710 ms' FROM jobs_latecompletion WHERE decided_at IS NULL
) AS found (step, due) GROUP BY step"""


@dataclass(frozen=True)
class Due:
    """`next_seconds`: until the first of what will be due; 0 while something is; None: nothing ever."""

    steps: frozenset[str]
    next_seconds: float | None


def now(cursor: Any) -> Due:
    found = [(step, left) for step, left in database.ask(cursor, _DUE) if left is not None]
    steps = frozenset(step for step, left in found if left <= 0)
    waits = [left for step, left in found if step != "replace_probes"]
    return Due(steps, max(0.0, min(waits)) if waits else None)
