-- What a hold may take of a balance: the credit line is in it, what the tenant owes is not.
CREATE FUNCTION credits_room(b credits_balance) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT b.posted - b.held - b.owed + least(b.credit_limit, -b.hard_floor)
$$;

-- Why a wallet cannot carry so much more: credits, day, month, pace; NULL when it can. A budget counts what was charged in
-- its period and all that is held. `mark` NULL: not paced.
CREATE FUNCTION credits_why_refused(
    b credits_balance, needed bigint, today date, day_budget bigint, month_budget bigint, mark bigint
) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN credits_room(b) < needed THEN 'credits'
        WHEN b.held + needed + CASE WHEN b.charged_on >= today THEN b.day_charged ELSE 0 END > day_budget THEN 'day'
        WHEN b.held + needed + CASE WHEN b.charged_on >= date_trunc('month', today) THEN b.month_charged ELSE 0 END
             > month_budget THEN 'month'
        WHEN b.paced_until > clock_timestamp() AND credits_room(b) < mark THEN 'pace'
    END
$$;
