"""SQL that fills a database as Berth would have: job number n has its hold, lot, entry, attempt, moves and events.

Triggers are off, so ten million take minutes. Everything follows from n: its tenant, its lot, whether it was charged (19 of
20) or released. Old jobs are only in the ledger; the newest have their rows in all tables.
"""

from typing import Any

LOTS = 11  # of a wallet; the last one is large, and the rest is used up
SESSIONS = 1_000
RUNNING = 1_000  # jobs that stay open, each on a session of its own
WAITING = 20_000

# Columns that only Django gives a default.
LACKING = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
  AND is_generated = 'NEVER' AND table_name SIMILAR TO '(jobs|pool|credits|webhooks|tenants)_%'
"""
# A time cannot be guessed; those are named below.
ZEROS = {"jsonb": "'{}'", "boolean": "true", "text": "''", "character varying": "''", "bytea": "''"}
NUMBERS = {"bigint", "integer", "smallint", "double precision"}

# {n}: the number of a job; wallets and their lots are numbered from the first tenant on.
JOB = "(lpad(to_hex({n}), 12, '0') || '00007000800000000000')::uuid"
PLACE = """
    SELECT n, w.tenant, w.account, {job} AS job, (n / %(wallets)s) %% 20 < 19 AS charged, 1 + n %% {sessions} AS session,
           (w.tenant - 1) * {lots} + 1 + least(n / %(wallets)s / %(per_lot)s, {lots} - 1) AS lot
    FROM generate_series(%(first)s, %(last)s) n JOIN bench_wallet w ON w.tenant = 1 + n %% %(wallets)s
""".format(job=JOB.format(n="n"), lots=LOTS, sessions=SESSIONS)

WORLD = f"""
CREATE TABLE bench_wallet (tenant bigint PRIMARY KEY, account bigint NOT NULL);
INSERT INTO tenants_tenant (id, name, share) SELECT n, 'tenant ' || n, 1 FROM generate_series(1, %(wallets)s) n
ON CONFLICT DO NOTHING;
INSERT INTO credits_account (ledger, kind, owner_id)
SELECT 'tenant', k, n FROM generate_series(1, %(wallets)s) n, unnest(ARRAY['receivable', 'wallet']) k
ON CONFLICT DO NOTHING;
INSERT INTO bench_wallet SELECT owner_id, id FROM credits_account WHERE kind = 'wallet';
INSERT INTO credits_balance (account_id, posted)
SELECT account, 0 FROM bench_wallet ON CONFLICT DO NOTHING;
INSERT INTO credits_lot (id, account_id, source_key, category, amount, remaining)
SELECT (w.tenant - 1) * {LOTS} + g, w.account, 'grant:' || w.tenant || ':' || g, 'paid', a.amount, a.amount
FROM bench_wallet w, generate_series(1, {LOTS}) g,
     LATERAL (SELECT CASE g WHEN {LOTS} THEN 1000000000 ELSE 5 * %(per_lot)s * 19 / 20 END AS amount) a;
INSERT INTO credits_transfer (id, op_key, ledger, debit_id, credit_id, amount, code, lot_id)
SELECT l.id, l.source_key, 'tenant', (SELECT id FROM credits_account WHERE kind = 'issuer'), l.account_id, l.amount,
       'grant_paid', l.id FROM credits_lot l;
UPDATE credits_balance b SET posted = (SELECT sum(amount) FROM credits_lot l WHERE l.account_id = b.account_id);
INSERT INTO pool_pool (id, name, "order", "window") VALUES (1, 'pool', 'fair', 10);
INSERT INTO pool_upstreamaccount (id, pool_id, name, sessions) VALUES (1, 1, 'account', {SESSIONS + RUNNING});
INSERT INTO pool_resource (id, pool_id, account_id, number, state)
SELECT n, 1, 1, n, 'available' FROM generate_series(1, {SESSIONS + RUNNING}) n;
INSERT INTO jobs_jobtype (id, name, pool_id, price, max_runtime_ms) VALUES (1, 'type', 1, '10', 1000);
SELECT setval(pg_get_serial_sequence('credits_lot', 'id'), (SELECT max(id) FROM credits_lot));
"""
LEDGER = [
    """
    SELECT setval(pg_get_serial_sequence('credits_hold', 'id'), %(last)s),
           setval(pg_get_serial_sequence('credits_transfer', 'id'), %(last)s + %(entries)s)
    """,
    f"""
    INSERT INTO credits_hold (id, account_id, job_id, run, amount, status, captured, review_at, resolved_at)
    SELECT n, account, job, 1, 10, CASE WHEN charged THEN 'captured' ELSE 'released' END, CASE WHEN charged THEN 5 END,
           now() + interval '1 day', now() FROM ({PLACE}) j
    """,
    f"INSERT INTO credits_holdlot (hold_id, lot_id, amount, captured) SELECT n, lot, 10, 5 * charged::int FROM ({PLACE}) j",
    f"""
    INSERT INTO credits_transfer (id, op_key, ledger, debit_id, credit_id, amount, code, hold_id)
    SELECT %(entries)s + n, 'settle:' || n, 'tenant', account,
           (SELECT id FROM credits_account WHERE kind = 'revenue'), 5, 'settle', n FROM ({PLACE}) j WHERE charged
    """,
    f"""
    UPDATE credits_lot l SET remaining = remaining - u.used
    FROM (SELECT lot, 5 * count(*) AS used FROM ({PLACE}) j WHERE charged GROUP BY lot) u WHERE l.id = u.lot
    """,
    f"""
    UPDATE credits_balance b
    SET posted = posted - u.used, day_charged = day_charged + u.used, month_charged = month_charged + u.used,
        charged_on = (now() AT TIME ZONE 'UTC')::date
    FROM (SELECT account, 5 * count(*) AS used FROM ({PLACE}) j WHERE charged GROUP BY account) u
    WHERE b.account_id = u.account
    """,
]
ENDED = "CASE WHEN charged THEN 'completed' ELSE 'failed' END"
JOBS = [
    """
    SELECT setval(pg_get_serial_sequence('jobs_attempt', 'id'), %(last)s),
           setval(pg_get_serial_sequence('jobs_evidence', 'id'), %(last)s),
           setval(pg_get_serial_sequence('webhooks_event', 'id'), %(last)s)
    """,
    f"""
    INSERT INTO jobs_job (id, tenant_id, type_id, pool_id, state, run, payload, turn, attempts, price, charged,
                          idempotency_key, finished_at)
    SELECT job, tenant, 1, 1, {ENDED}, 1, '{{"prompt": "a picture"}}', n, 1, 10, 5 * charged::int, 'key-' || n, now()
    FROM ({PLACE}) j
    """,
    f"""
    INSERT INTO jobs_jobmove (subject_id, from_state, to_state, cause, actor)
    SELECT job, m.source, coalesce(m.target, {ENDED}), 'bench', 'bench' FROM ({PLACE}) j, (VALUES
        (1, '', 'pending'), (2, 'pending', 'assigned'), (3, 'assigned', 'processing'), (4, 'processing', NULL)
    ) m (step, source, target) ORDER BY n, step
    """,
    f"""
    INSERT INTO jobs_attempt (id, job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict,
                              ended_at, finished_at)
    SELECT n, job, session, 1, 1, 1, 'job.' || n || '.a1', n, 'ended',
           CASE WHEN charged THEN 'succeeded' ELSE 'failed' END, now(), now() FROM ({PLACE}) j
    """,
    f"""INSERT INTO jobs_evidence (id, attempt_id, kind, fence, content)
        SELECT n, n, 'answer', n, '{{"status": 200}}' FROM ({PLACE}) j""",
    f"""
    INSERT INTO webhooks_event (id, tenant_id, type, job_id, job_run, body)
    SELECT n, tenant, 'job.' || {ENDED}, job, 1, '{{"data": {{"state": "ended"}}}}' FROM ({PLACE}) j
    """,
    f"""
    INSERT INTO pool_resourcemove (subject_id, from_state, to_state, cause, actor)
    SELECT session, source, target, 'bench', 'bench' FROM ({PLACE}) j, (VALUES
        (1, 'available', 'reserved'), (2, 'reserved', 'busy'), (3, 'busy', 'available')
    ) m (step, source, target) ORDER BY n, step
    """,
]
# They have the numbers after %(last)s, which no other job will have, and stand on the large lot of their wallet.
OPEN = [
    f"""
    CREATE TABLE bench_open AS
    SELECT n, n <= {RUNNING} AS running, w.tenant, w.account, {JOB.format(n="(2 ^ 40)::bigint + n")} AS job,
           (w.tenant - 1) * {LOTS} + {LOTS} AS lot
    FROM generate_series(1, {RUNNING + WAITING}) n JOIN bench_wallet w ON w.tenant = 1 + n %% %(wallets)s
    """,
    """
    INSERT INTO jobs_job (id, tenant_id, type_id, pool_id, state, run, payload, turn, attempts, price, idempotency_key)
    SELECT job, tenant, 1, 1, CASE WHEN running THEN 'processing' ELSE 'pending' END, 1, '{}',
           CASE WHEN running THEN n END, running::int, 10, 'open-' || n FROM bench_open
    """,
    """
    INSERT INTO jobs_jobmove (subject_id, from_state, to_state, cause, actor)
    SELECT job, m.source, m.target, 'bench', 'bench' FROM bench_open, (VALUES
        (1, '', 'pending'), (2, 'pending', 'assigned'), (3, 'assigned', 'processing')
    ) m (step, source, target) WHERE running OR step = 1 ORDER BY n, step
    """,
    f"""
    INSERT INTO jobs_attempt (job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, lease_until)
    SELECT job, {SESSIONS} + n, 1, 1, 1, 'open.' || n, 1, 'calling', now() + interval '1 day' FROM bench_open WHERE running
    """,
    f"""
    UPDATE pool_resource r SET state = 'busy', fence = 1, job_id = o.job
    FROM bench_open o WHERE o.running AND r.id = {SESSIONS} + o.n
    """,
    f"""
    INSERT INTO pool_resourcemove (subject_id, from_state, to_state, cause, actor)
    SELECT {SESSIONS} + n, source, target, 'bench', 'bench' FROM bench_open, (VALUES
        (1, 'available', 'reserved'), (2, 'reserved', 'busy')) m (step, source, target) WHERE running ORDER BY n, step
    """,
    """
    INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
    SELECT account, job, 1, 10, now() + interval '1 day' FROM bench_open
    """,
    """
    INSERT INTO credits_holdlot (hold_id, lot_id, amount)
    SELECT h.id, o.lot, 10 FROM bench_open o JOIN credits_hold h ON h.job_id = o.job
    """,
    """
    UPDATE credits_lot l SET reserved = o.held FROM (SELECT lot, 10 * count(*) AS held FROM bench_open GROUP BY lot) o
    WHERE l.id = o.lot
    """,
    """
    UPDATE credits_balance b SET held = o.held
    FROM (SELECT account, 10 * count(*) AS held FROM bench_open GROUP BY account) o WHERE b.account_id = o.account
    """,
]


def give_defaults(cursor: Any) -> None:
    """The columns that the statements above do not name."""
    cursor.execute(LACKING)
    for table, column, kind in cursor.fetchall():
        if zero := ZEROS.get(kind, "0" if kind in NUMBERS else ""):
            cursor.execute(f'ALTER TABLE {table} ALTER COLUMN "{column}" SET DEFAULT {zero}')
