-- Sets the amounts aside, or none; returns how many runs were new, or NULL when the wallet cannot carry them (or is not
-- there): then the caller rolls back. Holds first, then the busy row, whose condition is both the check and the lock,
-- then the lots under it. Nothing needed (a repeat, a free job) passes also below the line, but still locks.
CREATE FUNCTION credits_place_holds(
    tenant bigint, jobs uuid[], runs integer[], amounts bigint[], review_seconds double precision
) RETURNS bigint LANGUAGE plpgsql
-- Plans of a fresh table, which has no statistics yet, would read it whole for each hold.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    wallet bigint;
    placed bigint[];
    placed_amounts bigint[];
    needed bigint;
    left_over bigint;
    at timestamptz;
    first record;
BEGIN
    SELECT id INTO wallet FROM credits_account WHERE ledger = 'tenant' AND kind = 'wallet' AND owner_id = tenant;
    WITH inserted AS (
        INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
        SELECT wallet, w.job_id, w.run, w.amount, statement_timestamp() + review_seconds * interval '1 second'
        FROM unnest(jobs, runs, amounts) AS w (job_id, run, amount)
        WHERE wallet IS NOT NULL
        ON CONFLICT (job_id, run, account_id, attempt) DO NOTHING
        RETURNING id, amount
    )
    SELECT array_agg(id), array_agg(amount), coalesce(sum(amount), 0)
    INTO placed, placed_amounts, needed FROM inserted;

    UPDATE credits_balance b SET held = b.held + needed, version = b.version + 1
    WHERE b.account_id = wallet
      AND (needed = 0 OR b.posted - b.held + least(b.credit_limit, -b.hard_floor) >= needed)
    RETURNING b.posted - b.held + least(b.credit_limit, -b.hard_floor) INTO left_over;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF needed = 0 THEN
        RETURN coalesce(cardinality(placed), 0);
    END IF;

    -- The clock is read under the lock, and once: what is not due now is what may be reserved below. What is due comes
    -- first here, so that one look tells.
    at := clock_timestamp();
    SELECT l.id, l.remaining - l.reserved AS free, l.expires_at <= at AS due INTO first FROM credits_lot l
    WHERE l.account_id = wallet AND NOT l.spent AND l.remaining > l.reserved
    ORDER BY (l.expires_at <= at) IS TRUE DESC, l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id LIMIT 1;
    IF first.due THEN
        IF left_over < (SELECT sum(l.remaining - l.reserved) FROM credits_lot l
                        WHERE l.account_id = wallet AND NOT l.spent AND l.expires_at <= at) THEN
            UPDATE credits_balance b SET held = b.held - needed WHERE b.account_id = wallet;
            RETURN NULL;
        END IF;
        PERFORM credits_expire_lots(ARRAY[wallet], at);
    ELSIF first.free >= needed THEN
        INSERT INTO credits_holdlot (hold_id, lot_id, amount)
        SELECT a.id, first.id, a.amount FROM unnest(placed, placed_amounts) AS a (id, amount) WHERE a.amount > 0;
        UPDATE credits_lot l SET reserved = l.reserved + needed WHERE l.id = first.id;
        RETURN cardinality(placed);
    END IF;

    -- Holds and free lots as stretches of one line: where two overlap, that hold stands on that lot. What is beyond the
    -- last lot is drawn on the credit line.
    WITH asked AS (
        SELECT a.id, a.amount, sum(a.amount) OVER (ORDER BY a.id) AS up_to
        FROM unnest(placed, placed_amounts) AS a (id, amount)
    ), queued AS (
        SELECT l.id, l.remaining - l.reserved AS free,
               sum(l.remaining - l.reserved) OVER (
                   ORDER BY l.priority, l.expires_at NULLS LAST, l.category = 'paid', l.id) AS up_to
        FROM credits_lot l WHERE l.account_id = wallet AND NOT l.spent AND l.remaining > l.reserved
    ), standing AS (
        INSERT INTO credits_holdlot (hold_id, lot_id, amount)
        SELECT a.id, q.id, least(a.up_to, q.up_to) - greatest(a.up_to - a.amount, q.up_to - q.free)
        FROM asked a JOIN queued q ON a.up_to - a.amount < q.up_to AND q.up_to - q.free < a.up_to
        WHERE a.amount > 0
        RETURNING lot_id, amount
    )
    UPDATE credits_lot l SET reserved = l.reserved + s.amount
    FROM (SELECT lot_id, sum(amount) AS amount FROM standing GROUP BY lot_id) s WHERE l.id = s.lot_id;
    RETURN cardinality(placed);
END $$;
