-- Sets the amounts aside, or none: says how many runs were new, or why none may be held (credits_why_refused), and then the
-- caller rolls back. Holds first, then the busy row, whose condition is both the check and the lock, then the ceiling of
-- all tenants where there is one, then the lots. Nothing needed (a repeat, a free job) passes also below the line, but
-- still locks. `paced`: while little is left, only so often. `low`: little is left now, and the tenant was not told.
CREATE FUNCTION credits_place_holds(
    tenant bigint, jobs uuid[], runs integer[], amounts bigint[], review_seconds double precision, paced boolean,
    OUT placed_runs bigint, OUT refused text, OUT low boolean
) LANGUAGE plpgsql
-- Plans of a fresh table, which has no statistics yet, would read it whole for each hold.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    wallet bigint;
    day_budget bigint;
    month_budget bigint;
    mark bigint;
    pause_ms integer;
    ceiling boolean;
    today date;
    asked_at timestamptz;
    placed bigint[];
    placed_amounts bigint[];
    needed bigint;
    left_over bigint;
    at timestamptz;
    first record;
BEGIN
    SELECT a.id, t.day_budget, t.month_budget, t.low_below, t.low_pause_ms, c.id IS NOT NULL
    INTO wallet, day_budget, month_budget, mark, pause_ms, ceiling
    FROM credits_account a LEFT JOIN tenants_tenant t ON t.id = a.owner_id
    LEFT JOIN credits_ceiling c ON c.id = 1 AND (c.day_budget IS NOT NULL OR c.month_budget IS NOT NULL)
    WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = tenant;
    low := false;
    IF cardinality(jobs) = 1 THEN
        -- As nearly all come; a set of one costs more.
        INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
        SELECT wallet, jobs[1], runs[1], amounts[1], statement_timestamp() + review_seconds * interval '1 second'
        WHERE wallet IS NOT NULL
        ON CONFLICT (job_id, run, account_id, attempt) DO NOTHING
        RETURNING ARRAY[id], ARRAY[amount], amount INTO placed, placed_amounts, needed;
        needed := coalesce(needed, 0);
    ELSE
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
    END IF;
    placed_runs := coalesce(cardinality(placed), 0);
    IF day_budget IS NULL AND month_budget IS NULL AND mark IS NULL THEN
        -- credits_room, written out: this is what one busy tenant waits for.
        UPDATE credits_balance b SET held = b.held + needed, version = b.version + 1
        WHERE b.account_id = wallet
          AND (needed = 0 OR b.posted - b.held - b.owed + least(b.credit_limit, -b.hard_floor) >= needed)
        RETURNING b.posted - b.held - b.owed + least(b.credit_limit, -b.hard_floor) INTO left_over;
    ELSE
        today := statement_timestamp() AT TIME ZONE 'UTC';
        asked_at := clock_timestamp();
        -- Told once, and again only after twice the mark was there: credits that come and go tell nothing new.
        UPDATE credits_balance b SET
            held = b.held + needed, version = b.version + 1,
            low_since = CASE WHEN needed > 0 AND credits_room(b) - needed < mark
                              AND (b.low_since IS NULL OR credits_room(b) >= 2 * mark) THEN asked_at
                             WHEN credits_room(b) < 2 * mark THEN b.low_since END,
            paced_until = CASE WHEN needed > 0 AND paced AND credits_room(b) - needed < mark
                               THEN clock_timestamp() + pause_ms * interval '1 millisecond' ELSE b.paced_until END
        WHERE b.account_id = wallet
          AND (needed = 0 OR credits_why_refused(b, needed, today, day_budget, month_budget,
                                                 CASE WHEN paced THEN mark END) IS NULL)
        RETURNING credits_room(b), coalesce(b.low_since = asked_at, false) INTO left_over, low;
    END IF;
    IF NOT FOUND THEN
        -- Looked at again, unlocked: what has changed since it was refused is told as a lack of credits.
        refused := coalesce((
            SELECT credits_why_refused(b, needed, today, day_budget, month_budget, CASE WHEN paced THEN mark END)
            FROM credits_balance b WHERE b.account_id = wallet), 'credits');
        RETURN;
    END IF;
    IF needed = 0 THEN
        RETURN;
    END IF;
    IF ceiling THEN
        refused := credits_ceiling_refuses((statement_timestamp() AT TIME ZONE 'UTC')::date);
        IF refused IS NOT NULL THEN
            UPDATE credits_balance b SET held = b.held - needed WHERE b.account_id = wallet;
            RETURN;
        END IF;
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
            refused := 'credits';
            RETURN;
        END IF;
        PERFORM credits_expire_lots(ARRAY[wallet], at);
    ELSIF first.free >= needed THEN
        -- The lot first: the check of the foreign key then finds it locked by us already.
        UPDATE credits_lot l SET reserved = l.reserved + needed WHERE l.id = first.id;
        IF placed_runs = 1 THEN
            INSERT INTO credits_holdlot (hold_id, lot_id, amount) VALUES (placed[1], first.id, needed);
        ELSE
            INSERT INTO credits_holdlot (hold_id, lot_id, amount)
            SELECT a.id, first.id, a.amount FROM unnest(placed, placed_amounts) AS a (id, amount) WHERE a.amount > 0;
        END IF;
        RETURN;
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
END $$;
