-- Expires what is due in so many wallets at most, passing over those that are busy; returns how much.
CREATE FUNCTION credits_expire_due(most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    wallets bigint[];
BEGIN
    wallets := ARRAY(
        SELECT b.account_id FROM credits_balance b
        WHERE b.account_id IN (
            SELECT l.account_id FROM credits_lot l
            WHERE NOT l.spent AND l.expires_at <= statement_timestamp() AND l.remaining > l.reserved)
        ORDER BY b.account_id LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    RETURN credits_expire_lots(wallets, clock_timestamp());
END $$;
