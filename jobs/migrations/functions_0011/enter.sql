-- What a run of a job does once it is stored: its price is held, and turns are given as far as there is room. `price`
-- NULL: the tenant is not billed, and its wallet is only locked. Each statement has a snapshot of its own, so the count
-- sees what the lock was waited for, and nothing but these statements and the commit stands under the lock.
-- A refusal raises (BE001, the word of credits_place_holds), since its statement may be the whole transaction; so does a
-- hold that stood before (BE002). `low`: little is left and the tenant was not told. Who cannot tell it in the same
-- transaction (not `tells`) gets an error instead (BE003), and asks again as one who can.
CREATE FUNCTION jobs_enter(
    job uuid, run integer, tenant bigint, pool bigint, price bigint, review_seconds double precision, paced boolean,
    tells boolean, OUT low boolean, OUT given uuid[], OUT turns double precision[]
) LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    low := false;
    IF price IS NULL THEN
        PERFORM FROM credits_balance b WHERE b.account_id = (
            SELECT a.id FROM credits_account a WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = tenant)
        FOR NO KEY UPDATE;
    ELSE
        held := credits_place_holds(tenant, ARRAY[job], ARRAY[run], ARRAY[price], review_seconds, paced);
        low := held.low;
        IF held.refused IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'BE001', MESSAGE = held.refused;
        ELSIF held.placed_runs = 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'BE002', MESSAGE = format('job %s run %s is held already', job, run);
        ELSIF low AND NOT tells THEN
            RAISE EXCEPTION USING ERRCODE = 'BE003', MESSAGE = 'little is left, and the tenant is to be told';
        END IF;
    END IF;
    SELECT array_agg(g.id ORDER BY g.turn, g.id), array_agg(g.turn ORDER BY g.turn, g.id) INTO given, turns
    FROM jobs_give_turns(pool, ARRAY[tenant]) g;
END $$;
