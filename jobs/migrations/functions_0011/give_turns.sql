-- Gives turns to the next ready jobs of these tenants, whose wallets the caller has locked by an earlier statement: the
-- count, whose snapshot is younger than the lock, then sees what the lock was waited for. `window` bounds those in line,
-- `max_running` those in line or running. One call gives at most 100 turns to a tenant; what is left is given by the next.
CREATE FUNCTION jobs_give_turns(pool bigint, tenants bigint[])
RETURNS TABLE (id uuid, pool_id bigint, tenant_id bigint, turn double precision, due_at timestamptz) LANGUAGE plpgsql
-- One plan for any number of turns, and always by the indexes: a LIMIT that is not known is planned as a tenth of the
-- table, and a fresh table, which has no statistics yet, would be read whole.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    room record;
BEGIN
    FOR room IN
        SELECT t.id AS tenant, t.share, p."order" = 'fifo' AS fifo,
               LEAST(COALESCE((t.pools -> p.name ->> 'window')::int, p.window)
                     - count(j.id) FILTER (WHERE j.state = 'pending'),
                     COALESCE((t.pools -> p.name ->> 'max_running')::int, t.max_running) - count(j.id), 100) AS turns
        FROM tenants_tenant t
        JOIN pool_pool p ON p.id = pool
        LEFT JOIN jobs_job j ON j.tenant_id = t.id AND j.pool_id = p.id AND j.turn IS NOT NULL
             AND j.state IN ('pending', 'assigned', 'processing')
        WHERE t.id = ANY(tenants) AND (SELECT w.arrival FROM jobs_job w WHERE w.tenant_id = t.id AND w.pool_id = p.id
            AND w.state = 'pending' AND w.turn IS NULL AND w.due_at IS NULL
            ORDER BY w.priority DESC, w.arrival LIMIT 1) IS NOT NULL
        GROUP BY t.id, p.id ORDER BY t.id
    LOOP
        CONTINUE WHEN room.turns <= 0;
        -- turn = max(virtual time, the tenant's last finish tag); finish tag = turn + weight / share. (Start-time fair
        -- queueing: Goyal, Vin, Cheng 1996.) In a fifo pool the turn is the arrival.
        RETURN QUERY
        WITH picked AS MATERIALIZED (
            SELECT w.id, w.arrival, w.priority, w.weight FROM jobs_job w
            WHERE w.tenant_id = room.tenant AND w.pool_id = pool
              AND w.state = 'pending' AND w.turn IS NULL AND w.due_at IS NULL
            ORDER BY w.priority DESC, w.arrival LIMIT room.turns FOR NO KEY UPDATE SKIP LOCKED),
        base AS (
            SELECT GREATEST(p.virtual_time, COALESCE(l.finish_tag, 0)) AS start
            FROM pool_pool p LEFT JOIN jobs_line l ON l.pool_id = p.id AND l.tenant_id = room.tenant
            WHERE p.id = pool),
        tagged AS MATERIALIZED (
            SELECT k.id, k.arrival, k.weight / room.share AS cost,
                   b.start + sum(k.weight / room.share) OVER (ORDER BY k.priority DESC, k.arrival) AS finish
            FROM picked k, base b),
        kept AS (
            INSERT INTO jobs_line AS l (tenant_id, pool_id, finish_tag)
            SELECT room.tenant, pool, max(g.finish) FROM tagged g HAVING count(*) > 0
            ON CONFLICT (tenant_id, pool_id) DO UPDATE SET finish_tag = EXCLUDED.finish_tag)
        UPDATE jobs_job j SET turn = CASE WHEN room.fifo THEN g.arrival ELSE g.finish - g.cost END
        FROM tagged g WHERE j.id = g.id
        RETURNING j.id, j.pool_id, j.tenant_id, j.turn, j.due_at;
    END LOOP;
END $$;
