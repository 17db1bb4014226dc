-- What all wallets together have held and were charged in the day and in the month.
CREATE FUNCTION credits_ceiling_used(today date, OUT in_day bigint, OUT in_month bigint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(b.held + CASE WHEN b.charged_on >= today THEN b.day_charged ELSE 0 END), 0)::bigint,
           coalesce(sum(b.held + CASE WHEN b.charged_on >= date_trunc('month', today) THEN b.month_charged ELSE 0 END),
                    0)::bigint
    FROM credits_balance b JOIN credits_account a ON a.id = b.account_id AND a.kind = 'wallet'
$$;

-- Whether what the caller has just held passes the budgets of all tenants: all_day, all_month, or NULL. Their row is locked
-- until the caller ends, so the sum, read in a later statement, has all that was held before.
CREATE FUNCTION credits_ceiling_refuses(today date) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on
AS $$
DECLARE
    ceiling credits_ceiling;
    used record;
BEGIN
    SELECT * INTO ceiling FROM credits_ceiling FOR NO KEY UPDATE;
    SELECT * INTO used FROM credits_ceiling_used(today);
    RETURN CASE WHEN used.in_day > ceiling.day_budget THEN 'all_day'
                WHEN used.in_month > ceiling.month_budget THEN 'all_month' END;
END $$;
