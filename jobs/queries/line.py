"""Lines and turns: how much room a tenant has in a pool, and giving turns to its next jobs."""

from collections.abc import Sequence

from statemachine.sql import Row, fetch

# One promotion gives at most this many turns to a tenant; what is left is promoted by the next.
MOST_TURNS = 100

# What a tenant may do in a pool: the pool's own entry, else the general one.
WINDOW = "COALESCE((t.pools -> p.name ->> 'window')::int, p.window)"
CAP = "COALESCE((t.pools -> p.name ->> 'max_running')::int, t.max_running)"

# Whether a ready job of tenant `t` in pool `p` has no turn yet. In the order of the index `job_line`, so that it is one
# probe: as a plain EXISTS it is planned as a join that reads all who wait.
WAITS = """(SELECT w.arrival FROM jobs_job w WHERE w.tenant_id = t.id AND w.pool_id = p.id
            AND w.state = 'pending' AND w.turn IS NULL AND w.due_at IS NULL
            ORDER BY w.priority DESC, w.arrival LIMIT 1) IS NOT NULL"""

_ROOM = f"""
SELECT t.id AS tenant_id, t.share, p."order" = 'fifo' AS fifo,
       LEAST({WINDOW} - count(j.id) FILTER (WHERE j.state = 'pending'), {CAP} - count(j.id)) AS turns
FROM tenants_tenant t
JOIN pool_pool p ON p.id = %s
LEFT JOIN jobs_job j ON j.tenant_id = t.id AND j.pool_id = p.id AND j.turn IS NOT NULL
     AND j.state IN ('pending', 'assigned', 'processing')
WHERE t.id = ANY(%s) AND {WAITS} GROUP BY t.id, p.id ORDER BY t.id"""

# turn = max(virtual time, the tenant's last finish tag); finish tag = turn + weight / share. (Start-time fair
# queueing: Goyal, Vin, Cheng 1996.) In a fifo pool the turn is the arrival.
_GIVE = """
WITH picked AS MATERIALIZED (
    SELECT id, arrival, priority, weight FROM jobs_job
    WHERE tenant_id = %(tenant)s AND pool_id = %(pool)s AND state = 'pending' AND turn IS NULL AND due_at IS NULL
    ORDER BY priority DESC, arrival LIMIT {turns} FOR NO KEY UPDATE SKIP LOCKED),
base AS (
    SELECT GREATEST(p.virtual_time, COALESCE(l.finish_tag, 0)) AS start
    FROM pool_pool p LEFT JOIN jobs_line l ON l.pool_id = p.id AND l.tenant_id = %(tenant)s
    WHERE p.id = %(pool)s),
tagged AS MATERIALIZED (
    SELECT k.id, k.arrival, b.start + sum(k.weight / %(share)s) OVER (ORDER BY k.priority DESC, k.arrival) AS finish,
           k.weight / %(share)s AS cost
    FROM picked k, base b),
kept AS (
    INSERT INTO jobs_line AS l (tenant_id, pool_id, finish_tag)
    SELECT %(tenant)s, %(pool)s, max(finish) FROM tagged HAVING count(*) > 0
    ON CONFLICT (tenant_id, pool_id) DO UPDATE SET finish_tag = EXCLUDED.finish_tag)
UPDATE jobs_job j SET turn = CASE WHEN %(fifo)s THEN g.arrival ELSE g.finish - g.cost END
FROM tagged g WHERE j.id = g.id
RETURNING j.id, j.pool_id, j.tenant_id, j.turn, j.due_at"""

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


def room(pool_id: int, tenant_ids: Sequence[int]) -> list[Row]:
    """Tenants with jobs that wait for a turn, and how many may get one.

    `window` bounds those in line, `max_running` those in line or running.

    Exact only after the tenants' wallets were locked by an earlier statement: the count then sees what they committed.
    """
    return [row for row in fetch(_ROOM, [pool_id, list(tenant_ids)]) if row["turns"] > 0]


def give_turns(pool_id: int, room: Row) -> list[Row]:
    """Gives turns to the next ready jobs of a tenant, as many as its `room` says; rows are the jobs that got one."""
    statement = _GIVE.format(turns=min(room["turns"], MOST_TURNS))
    return fetch(
        statement, {"tenant": room["tenant_id"], "pool": pool_id, "share": room["share"], "fifo": room["fifo"]}
    )


def owed() -> list[Row]:
    """Pools and the tenants in them that have ready jobs without a turn (whether or not they have room)."""
    return fetch(_OWED)
