-- A new lot and the entry that funds it, once per key; returns false when the key is taken. Covers debt from it.
CREATE OR REPLACE FUNCTION credits_fund_lot(
    wallet bigint, source bigint, amount bigint, key text, code text, category text, priority integer,
    expires_at timestamptz, hold bigint, reverses bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    lot bigint;
BEGIN
    PERFORM FROM credits_balance b WHERE b.account_id = wallet FOR NO KEY UPDATE;
    INSERT INTO credits_lot (account_id, source_key, category, priority, amount, remaining, expires_at)
    VALUES (wallet, key, category, priority, amount, amount, expires_at)
    ON CONFLICT (source_key) DO NOTHING RETURNING id INTO lot;
    IF lot IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, lot_id, hold_id, reverses_id)
    VALUES (key, 'tenant', source, wallet, amount, code, lot, hold, reverses);
    UPDATE credits_balance b SET posted = b.posted + credits_fund_lot.amount, version = b.version + 1,
                                 low_since = NULL, paced_until = NULL
    WHERE b.account_id = wallet;
    PERFORM credits_cover_debt(ARRAY[wallet]);
    RETURN true;
END $$;
