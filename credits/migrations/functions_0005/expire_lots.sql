-- Takes what is free of the lots that were due at that moment; returns how much. The caller holds the balances.
-- What open holds have reserved stays; it is due again once they free it, so one lot may expire in several entries.
CREATE FUNCTION credits_expire_lots(wallets bigint[], due_at timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    expired bigint;
BEGIN
    WITH due AS (
        SELECT l.id, l.account_id, l.remaining - l.reserved AS free
        FROM credits_lot l
        WHERE l.account_id = ANY(wallets) AND NOT l.spent AND l.expires_at <= due_at AND l.remaining > l.reserved
    ), emptied AS (
        UPDATE credits_lot l SET remaining = l.remaining - due.free FROM due WHERE l.id = due.id
    ), booked AS (
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, lot_id)
        SELECT 'expire:' || due.id || ':' || (
                   SELECT count(*) FROM credits_transfer t WHERE t.lot_id = due.id AND t.code = 'expire'),
               'tenant', due.account_id,
               (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'breakage' AND owner_id IS NULL),
               due.free, 'expire', due.id
        FROM due ORDER BY due.id
    ), balanced AS (
        UPDATE credits_balance b SET posted = b.posted - d.free, version = b.version + 1
        FROM (SELECT account_id, sum(free)::bigint AS free FROM due GROUP BY account_id) d
        WHERE b.account_id = d.account_id
    )
    SELECT sum(free) INTO expired FROM due;
    RETURN coalesce(expired, 0);
END $$;
