-- Sets aside what attempts are expected to use of their upstream accounts, or nothing: false when one of the accounts has
-- not so much, and then the caller rolls back. One that is not tracked is an error. Balances in the order of their ids, then the holds.
CREATE FUNCTION credits_hold_upstream(
    book text, owners bigint[], jobs uuid[], runs integer[], attempts integer[], amounts bigint[],
    review_seconds double precision
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    accounts bigint[];
    afforded bigint;
BEGIN
    SELECT array_agg(DISTINCT a.id) INTO accounts
    FROM credits_account a WHERE a.ledger = book AND a.kind = 'upstream' AND a.owner_id = ANY(owners);
    PERFORM FROM credits_balance b WHERE b.account_id = ANY(accounts) ORDER BY b.account_id FOR NO KEY UPDATE;
    WITH placed AS (
        INSERT INTO credits_hold (account_id, job_id, run, attempt, amount, review_at)
        SELECT (SELECT a.id FROM credits_account a WHERE a.ledger = book AND a.kind = 'upstream' AND a.owner_id = w.owner),
               w.job, w.run, w.attempt, w.amount, statement_timestamp() + review_seconds * interval '1 second'
        FROM unnest(owners, jobs, runs, attempts, amounts) AS w (owner, job, run, attempt, amount)
        RETURNING account_id, amount
    ), needed AS (
        SELECT account_id, sum(amount)::bigint AS amount FROM placed GROUP BY account_id
    ), held AS (
        UPDATE credits_balance b SET held = b.held + n.amount, version = b.version + 1
        FROM needed n WHERE b.account_id = n.account_id AND (n.amount = 0 OR b.posted - b.held >= n.amount)
        RETURNING b.account_id
    )
    SELECT count(*) FILTER (WHERE h.account_id IS NULL) INTO afforded FROM needed n LEFT JOIN held h USING (account_id);
    RETURN afforded = 0;
END $$;

-- Closes what these attempts had set aside: `spent` is charged, also beyond the hold, since the provider has taken it; NULL
-- gives back. Returns how many it closed. Balances in the order of their ids; then a later statement.
CREATE FUNCTION credits_close_upstream(
    jobs uuid[], runs integer[], attempts integer[], spent bigint[], why text
) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    holds bigint[];
    accounts bigint[];
    used bigint[];
    closed bigint;
BEGIN
    SELECT array_agg(open.id), array_agg(open.account_id), array_agg(c.spent) INTO holds, accounts, used
    FROM unnest(jobs, runs, attempts, spent) AS c (job_id, run, attempt, spent)
    CROSS JOIN LATERAL (
        SELECT h.id, h.account_id FROM credits_hold h
        WHERE h.job_id = c.job_id AND h.run = c.run AND h.attempt = c.attempt AND c.attempt > 0 AND h.status = 'open'
        OFFSET 0) open;
    IF holds IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM credits_balance b WHERE b.account_id = ANY(accounts) ORDER BY b.account_id FOR NO KEY UPDATE;
    WITH resolved AS (
        UPDATE credits_hold h
        SET status = CASE WHEN c.spent IS NULL THEN 'released' ELSE 'captured' END,
            captured = CASE WHEN c.spent IS NOT NULL THEN least(c.spent, h.amount) END,
            overrun = greatest(c.spent - h.amount, 0), reason = why, resolved_at = statement_timestamp()
        FROM unnest(holds, used) AS c (id, spent)
        WHERE h.id = c.id AND h.status = 'open'
        RETURNING h.id, h.account_id, h.amount, h.captured, h.overrun
    ), booked AS (
        INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
        SELECT e.op || ':' || r.id, a.ledger, r.account_id,
               (SELECT s.id FROM credits_account s WHERE s.ledger = a.ledger AND s.kind = 'upstream_spend'),
               e.amount, e.code, r.id
        FROM resolved r JOIN credits_account a ON a.id = r.account_id
        CROSS JOIN LATERAL (VALUES ('settle', 'settle', r.captured), ('overrun', 'overrun_spent', r.overrun))
            AS e (op, code, amount)
        WHERE e.amount > 0 ORDER BY r.id, e.op DESC
    ), balanced AS (
        UPDATE credits_balance b
        SET held = b.held - r.amount, posted = b.posted - r.used, version = b.version + 1
        FROM (SELECT account_id, sum(amount)::bigint AS amount, coalesce(sum(captured + overrun), 0)::bigint AS used
              FROM resolved GROUP BY account_id) r
        WHERE b.account_id = r.account_id
    )
    SELECT count(*) INTO closed FROM resolved;
    RETURN closed;
END $$;
