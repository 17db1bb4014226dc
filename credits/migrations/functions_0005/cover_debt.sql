-- What was used on credit is paid from free lots first, so debt and free lots never stand side by side. What has expired
-- pays nothing. The caller holds the balances. The debt of a wallet is what its lots have beyond what is posted.
CREATE FUNCTION credits_cover_debt(wallets bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    indebted bigint[];
BEGIN
    SELECT array_agg(b.account_id) INTO indebted FROM credits_balance b
    WHERE b.account_id = ANY(wallets) AND b.posted < (
        SELECT coalesce(sum(l.remaining), 0) FROM credits_lot l WHERE l.account_id = b.account_id AND NOT l.spent);
    IF indebted IS NULL THEN
        RETURN;
    END IF;
    PERFORM credits_expire_lots(indebted, clock_timestamp());
    WITH debts AS (
        SELECT b.account_id, sum(l.remaining) - b.posted AS debt
        FROM credits_balance b JOIN credits_lot l ON l.account_id = b.account_id AND NOT l.spent
        WHERE b.account_id = ANY(indebted) GROUP BY b.account_id
    ), queued AS (
        SELECT l.id, l.account_id, l.remaining - l.reserved AS free,
               sum(l.remaining - l.reserved) OVER (
                   PARTITION BY l.account_id
                   ORDER BY l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id) AS free_up_to
        FROM credits_lot l WHERE l.account_id = ANY(indebted) AND NOT l.spent AND l.remaining > l.reserved
    )
    UPDATE credits_lot l SET remaining = l.remaining - least(q.free, d.debt - (q.free_up_to - q.free))
    FROM queued q JOIN debts d ON d.account_id = q.account_id
    WHERE l.id = q.id AND d.debt > q.free_up_to - q.free;
END $$;
