-- Charges the open holds of these runs and gives back the rest; `actuals` NULL releases them. Returns those it closed.
-- Balances first, in the order of their ids; then a later statement, which sees what they were waited for.
CREATE OR REPLACE FUNCTION credits_close_holds(
    jobs uuid[], runs integer[], actuals bigint[], policies text[], why text
) RETURNS TABLE (hold_id bigint, job_id uuid, run integer, captured bigint, overrun bigint) LANGUAGE plpgsql
-- Plans of a fresh table, which has no statistics yet, would read it whole for each hold.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    holds bigint[];
    wallets bigint[];
    given bigint[];
    their_policies text[];
    on_credit bigint[];
    closed bigint[];
    their_jobs uuid[];
    their_runs integer[];
    charged bigint[];
    beyond bigint[];
    unbacked bigint;
    today date := statement_timestamp() AT TIME ZONE 'UTC';
BEGIN
    -- OFFSET 0 keeps one index look-up per run: joined freely, a table without statistics is read whole for each.
    SELECT array_agg(open.id), array_agg(open.account_id), array_agg(c.actual), array_agg(c.policy)
    INTO holds, wallets, given, their_policies
    FROM unnest(jobs, runs, actuals, policies) AS c (job_id, run, actual, policy)
    CROSS JOIN LATERAL (
        SELECT h.id, h.account_id FROM credits_hold h
        WHERE h.job_id = c.job_id AND h.run = c.run AND h.attempt = 0 AND h.status = 'open' OFFSET 0) open;
    IF holds IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM credits_balance b WHERE b.account_id = ANY(wallets) ORDER BY b.account_id FOR NO KEY UPDATE;

    WITH resolved AS (
        UPDATE credits_hold h
        SET status = CASE WHEN c.actual IS NULL THEN 'released' ELSE 'captured' END,
            captured = CASE WHEN c.actual IS NOT NULL THEN least(c.actual, h.amount) END,
            overrun = greatest(c.actual - h.amount, 0), reason = why, resolved_at = statement_timestamp()
        FROM unnest(holds, given, their_policies) AS c (id, actual, policy)
        WHERE h.id = c.id AND h.status = 'open'
        RETURNING h.id, h.account_id, h.job_id, h.run, h.amount, h.captured, h.overrun, c.policy
    ), booked AS (
        -- Scalar subqueries: a missing account is a NULL that the table refuses, never a row quietly not written.
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
        SELECT e.op || ':' || r.id, 'tenant', e.payer,
               (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'revenue' AND owner_id IS NULL),
               e.amount, e.code, r.id
        FROM resolved r
        CROSS JOIN LATERAL (
            SELECT 'settle', 'settle', r.captured, r.account_id
            UNION ALL
            SELECT 'overrun', 'overrun_' || r.policy, r.overrun,
                   CASE r.policy
                   WHEN 'debt' THEN (SELECT o.id FROM credits_account o JOIN credits_account w ON o.owner_id = w.owner_id
                                     WHERE w.id = r.account_id AND o.ledger = 'tenant' AND o.kind = 'receivable')
                   ELSE (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'loss' AND owner_id IS NULL)
                   END WHERE r.overrun > 0
        ) AS e (op, code, amount, payer)
        WHERE e.amount > 0 ORDER BY r.id, e.op DESC
    ), balanced AS (
        -- A day that began later has been counted already: then this counts to it, and never to none.
        UPDATE credits_balance b
        SET held = b.held - r.amount, posted = b.posted - r.captured, version = b.version + 1, owed = b.owed + r.owed,
            charged_on = CASE WHEN r.captured + r.owed > 0 THEN greatest(b.charged_on, today) ELSE b.charged_on END,
            day_charged = CASE WHEN r.captured + r.owed = 0 OR b.charged_on >= today THEN b.day_charged ELSE 0 END
                          + r.captured + r.owed,
            month_charged = CASE WHEN r.captured + r.owed = 0 OR b.charged_on >= date_trunc('month', today)
                                 THEN b.month_charged ELSE 0 END + r.captured + r.owed
        FROM (SELECT account_id, sum(amount)::bigint AS amount, coalesce(sum(captured), 0)::bigint AS captured,
                     coalesce(sum(overrun) FILTER (WHERE policy = 'debt'), 0)::bigint AS owed
              FROM resolved GROUP BY account_id) r
        WHERE b.account_id = r.account_id
        RETURNING b.account_id, b.hard_floor
    ), parts AS (
        -- Each hold is charged to its lots in their order; what it did not use is free again.
        SELECT s.hold_id, s.lot_id, s.amount,
               greatest(0, least(s.amount, coalesce(r.captured, 0) - (sum(s.amount) OVER (
                   PARTITION BY s.hold_id
                   ORDER BY l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id) - s.amount)))::bigint AS used
        FROM resolved r
        JOIN credits_holdlot s ON s.hold_id = r.id
        JOIN credits_lot l ON l.id = s.lot_id
    ), marked AS (
        UPDATE credits_holdlot s SET captured = p.used FROM parts p WHERE s.hold_id = p.hold_id AND s.lot_id = p.lot_id
    ), freed AS (
        UPDATE credits_lot l SET reserved = l.reserved - p.amount, remaining = l.remaining - p.used
        FROM (SELECT lot_id, sum(amount)::bigint AS amount, sum(used)::bigint AS used FROM parts GROUP BY lot_id) p
        WHERE l.id = p.lot_id
    )
    SELECT array_agg(r.id), array_agg(r.job_id), array_agg(r.run), array_agg(r.captured), array_agg(r.overrun),
           (SELECT array_agg(account_id) FROM balanced WHERE hard_floor < 0),
           coalesce(sum(r.captured), 0) - (SELECT coalesce(sum(used), 0) FROM parts)
    INTO closed, their_jobs, their_runs, charged, beyond, on_credit, unbacked FROM resolved r;

    -- A wallet that may not go below zero owes nothing, unless its holds are older than the lots.
    IF unbacked > 0 THEN
        PERFORM credits_cover_debt(wallets);
    ELSIF on_credit IS NOT NULL THEN
        PERFORM credits_cover_debt(on_credit);
    END IF;
    RETURN QUERY SELECT * FROM unnest(closed, their_jobs, their_runs, charged, beyond);
END $$;
