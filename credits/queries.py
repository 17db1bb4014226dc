"""The SQL of the ledger: one statement per verb, whatever the number of rows.

Each returns rows and judges nothing; `ledger.py` turns them into answers and errors. All rely on READ COMMITTED, where
a blocked UPDATE looks at its row again, and on data flow for their order: what must come later reads from the earlier.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from statemachine.prepared import execute

Row = tuple[Any, ...]

# Several accounts in one statement, always in this order, so that two openings cannot wait for each other.
OPEN_ACCOUNTS = """
INSERT INTO credits_account (ledger, kind, owner_id)
VALUES ('tenant', 'issuer', NULL), ('tenant', 'revenue', NULL), ('tenant', 'loss', NULL),
       ('tenant', 'receivable', %(tenant)s), ('tenant', 'wallet', %(tenant)s)
ON CONFLICT (ledger, kind, owner_id) DO NOTHING
"""

OPEN_BALANCE = """
INSERT INTO credits_balance (account_id, credit_limit, hard_floor)
SELECT id, %(limit)s, -%(limit)s FROM credits_account
WHERE ledger = 'tenant' AND kind = 'wallet' AND owner_id = %(tenant)s
ON CONFLICT (account_id) DO NOTHING
"""

WALLET = """
SELECT a.id, b.posted, b.held, b.credit_limit, b.posted - b.held + least(b.credit_limit, -b.hard_floor)
FROM credits_account a JOIN credits_balance b ON b.account_id = a.id
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s
"""

LOCK_WALLETS = """
SELECT b.account_id FROM credits_balance b
WHERE b.account_id IN (
    SELECT id FROM credits_account
    WHERE ledger = 'tenant' AND kind = 'wallet' AND owner_id = ANY(%(tenants)s::bigint[]))
ORDER BY b.account_id FOR NO KEY UPDATE
"""

GRANT = """
WITH booked AS (
    INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
    SELECT %(key)s, 'tenant',
           (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'issuer' AND owner_id IS NULL),
           %(wallet)s, %(amount)s, %(code)s
    ON CONFLICT (op_key) DO NOTHING
    RETURNING credit_id, amount
)
UPDATE credits_balance b SET posted = b.posted + booked.amount, version = b.version + 1
FROM booked WHERE b.account_id = booked.credit_id
RETURNING b.account_id
"""

SAME_GRANT = """
SELECT 1 FROM credits_transfer
WHERE op_key = %(key)s AND ledger = 'tenant' AND credit_id = %(wallet)s AND amount = %(amount)s AND code = %(code)s
"""

# The busy row comes last, and its condition is both the check and the lock. Nothing needed (a repeat, a free job)
# passes also below the line, but still locks.
HOLD = """
WITH wallet AS (
    SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'wallet' AND owner_id = %(tenant)s
), placed AS (
    INSERT INTO credits_hold (account_id, job_id, run, amount, review_at)
    SELECT wallet.id, w.job_id, w.run, w.amount, statement_timestamp() + %(review)s * interval '1 second'
    FROM wallet, unnest(%(jobs)s::uuid[], %(runs)s::int[], %(amounts)s::bigint[]) AS w (job_id, run, amount)
    ON CONFLICT (job_id, run, account_id, attempt) DO NOTHING
    RETURNING amount
), needed AS (
    SELECT coalesce(sum(amount), 0)::bigint AS amount, count(*) AS rows FROM placed
)
UPDATE credits_balance b SET held = b.held + needed.amount, version = b.version + 1
FROM wallet, needed
WHERE b.account_id = wallet.id
  AND (needed.amount = 0 OR b.posted - b.held + least(b.credit_limit, -b.hard_floor) >= needed.amount)
RETURNING needed.rows
"""

OTHER_HOLDS = """
SELECT w.job_id, w.run
FROM unnest(%(jobs)s::uuid[], %(runs)s::int[], %(amounts)s::bigint[]) AS w (job_id, run, amount)
WHERE NOT EXISTS (
    SELECT FROM credits_hold h JOIN credits_account a ON a.id = h.account_id
    WHERE h.job_id = w.job_id AND h.run = w.run AND h.attempt = 0 AND h.amount = w.amount
      AND a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s)
LIMIT 1
"""

# `actual` NULL releases. ARRAY(…) is computed whole before the first hold is touched: all balances are locked by then.
# OFFSET 0 keeps one index look-up per run: joined freely, a fresh table without statistics is read whole for each.
CLOSE = """
WITH closing AS MATERIALIZED (
    SELECT open.id, open.account_id, c.actual
    FROM unnest(%(jobs)s::uuid[], %(runs)s::int[], %(actuals)s::bigint[]) AS c (job_id, run, actual)
    CROSS JOIN LATERAL (
        SELECT h.id, h.account_id FROM credits_hold h
        WHERE h.job_id = c.job_id AND h.run = c.run AND h.attempt = 0 AND h.status = 'open' OFFSET 0) open
), wallets AS MATERIALIZED (
    SELECT b.account_id FROM credits_balance b
    WHERE b.account_id IN (SELECT account_id FROM closing)
    ORDER BY b.account_id FOR NO KEY UPDATE OF b
), resolved AS (
    UPDATE credits_hold h
    SET status = CASE WHEN c.actual IS NULL THEN 'released' ELSE 'captured' END,
        captured = CASE WHEN c.actual IS NOT NULL THEN least(c.actual, h.amount) END,
        overrun = greatest(c.actual - h.amount, 0), reason = %(reason)s, resolved_at = statement_timestamp()
    FROM closing c
    WHERE h.id = c.id AND h.status = 'open' AND c.account_id = ANY(ARRAY(SELECT account_id FROM wallets))
    RETURNING h.id, h.account_id, h.job_id, h.run, h.amount, h.captured, h.overrun
), settled AS (
    INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
    SELECT 'settle:' || id, 'tenant', account_id,
           (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'revenue' AND owner_id IS NULL),
           captured, 'settle', id
    FROM resolved WHERE captured > 0
), balanced AS (
    UPDATE credits_balance b
    SET held = b.held - r.amount, posted = b.posted - r.captured, version = b.version + 1
    FROM (SELECT account_id, sum(amount)::bigint AS amount, coalesce(sum(captured), 0)::bigint AS captured
          FROM resolved GROUP BY account_id) r
    WHERE b.account_id = r.account_id
)
SELECT id, job_id, run, captured, overrun FROM resolved
"""

# Scalar subqueries: an account that is missing is a NULL that the table refuses, never a row quietly not written.
BOOK_OVERRUNS = """
INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
SELECT 'overrun:' || h.id, 'tenant',
       CASE o.policy
       WHEN 'debt' THEN (SELECT r.id FROM credits_account r JOIN credits_account w ON r.owner_id = w.owner_id
                         WHERE w.id = h.account_id AND r.ledger = 'tenant' AND r.kind = 'receivable')
       ELSE (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'loss' AND owner_id IS NULL) END,
       (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'revenue' AND owner_id IS NULL),
       h.overrun, 'overrun_' || o.policy, h.id
FROM unnest(%(holds)s::bigint[], %(policies)s::text[]) AS o (hold_id, policy)
JOIN credits_hold h ON h.id = o.hold_id
"""


def open_wallet(tenant_id: int, credit_limit: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(OPEN_ACCOUNTS, {"tenant": tenant_id})
        cursor.execute(OPEN_BALANCE, {"tenant": tenant_id, "limit": credit_limit})


def wallet(tenant_id: int) -> Row | None:
    """(account id, posted, held, credit limit, available), or None."""
    return _first(WALLET, tenant=tenant_id)


def lock_wallets(tenant_ids: Sequence[int]) -> None:
    _first(LOCK_WALLETS, tenants=list(tenant_ids))


def book_grant(wallet_id: int, amount: int, key: str, code: str) -> bool:
    """False when the key is taken."""
    return _first(GRANT, wallet=wallet_id, amount=amount, key=key, code=code) is not None


def is_same_grant(wallet_id: int, amount: int, key: str, code: str) -> bool:
    return _first(SAME_GRANT, wallet=wallet_id, amount=amount, key=key, code=code) is not None


def place_holds(
    tenant_id: int, jobs: list[UUID], runs: list[int], amounts: list[int], review_seconds: float
) -> int | None:
    """How many were new, or None when the wallet cannot carry them (or is not there)."""
    row = _first(HOLD, tenant=tenant_id, jobs=jobs, runs=runs, amounts=amounts, review=review_seconds)
    return None if row is None else int(row[0])


def first_other_hold(tenant_id: int, jobs: list[UUID], runs: list[int], amounts: list[int]) -> Row | None:
    """(job id, run) of one that stands with another amount or under another wallet."""
    return _first(OTHER_HOLDS, tenant=tenant_id, jobs=jobs, runs=runs, amounts=amounts)


def close_holds(jobs: list[UUID], runs: list[int], actuals: Sequence[int | None], reason: str) -> list[Row]:
    """(hold id, job id, run, captured, overrun) of each hold that was open."""
    with connection.cursor() as cursor:
        execute(cursor, CLOSE, {"jobs": jobs, "runs": runs, "actuals": list(actuals), "reason": reason})
        rows: list[Row] = cursor.fetchall()
        return rows


def book_overruns(holds: list[int], policies: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(BOOK_OVERRUNS, {"holds": holds, "policies": policies})


def _first(sql: str, **parameters: Any) -> Row | None:
    with connection.cursor() as cursor:
        execute(cursor, sql, parameters)
        row: Row | None = cursor.fetchone()
        return row
