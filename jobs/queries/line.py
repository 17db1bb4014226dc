"""Lines and turns: what a tenant may do in a pool, and giving turns to its next jobs."""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

# These three stand word for word in the function `jobs_give_turns` too, and a test compares them.
# What a tenant may do in a pool: the pool's own entry, else the general one.
WINDOW = "COALESCE((t.pools -> p.name ->> 'window')::int, p.window)"
CAP = "COALESCE((t.pools -> p.name ->> 'max_running')::int, t.max_running)"

# Whether a ready job of tenant `t` in pool `p` has no turn yet. In the order of the index `job_line`, so that it is one
# probe: as a plain EXISTS it is planned as a join that reads all who wait.
WAITS = """(SELECT w.arrival FROM jobs_job w WHERE w.tenant_id = t.id AND w.pool_id = p.id
            AND w.state = 'pending' AND w.turn IS NULL AND w.due_at IS NULL
            ORDER BY w.priority DESC, w.arrival LIMIT 1) IS NOT NULL"""

# The lines with ready jobs and no turn, by a loose scan of the index `job_line`: one probe per line, not per job.
_OWED = """
WITH RECURSIVE line AS (
    (SELECT tenant_id, pool_id FROM jobs_job WHERE state = 'pending' AND turn IS NULL AND due_at IS NULL
     ORDER BY tenant_id, pool_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.pool_id FROM line l CROSS JOIN LATERAL (
        SELECT tenant_id, pool_id FROM jobs_job
        WHERE state = 'pending' AND turn IS NULL AND due_at IS NULL
          AND (tenant_id, pool_id) > (l.tenant_id, l.pool_id)
        ORDER BY tenant_id, pool_id LIMIT 1) n)
SELECT pool_id, array_agg(tenant_id) AS tenant_ids FROM line GROUP BY pool_id"""


def give_turns(pool_id: int, tenant_ids: Sequence[int]) -> list[Row]:
    """Gives turns to the next ready jobs of these tenants, as far as they have room; rows are the jobs that got one.

    Exact only after the tenants' wallets were locked by an earlier statement: the count then sees what they committed.
    """
    return fetch("SELECT * FROM jobs_give_turns(%s, %s::bigint[])", [pool_id, list(tenant_ids)])


def owed() -> list[Row]:
    """Pools and the tenants in them that have ready jobs without a turn (whether or not they have room)."""
    return fetch(_OWED)
