"""The SQL of the ledger: one statement per verb, whatever the number of rows.

The verbs themselves are functions of the database (the files in `migrations/functions_…`). Each returns rows and judges
nothing; the verbs of this app turn them into answers and errors. All rely on READ COMMITTED, where a blocked UPDATE looks
at its row again and each statement inside a function sees what was committed before it began.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from credits.errors import NoWallet
from statemachine.prepared import execute

Row = tuple[Any, ...]

# Several accounts in one statement, always in this order, so that two openings cannot wait for each other.
OPEN_ACCOUNTS = """
INSERT INTO credits_account (ledger, kind, owner_id)
VALUES ('tenant', 'issuer', NULL), ('tenant', 'revenue', NULL), ('tenant', 'loss', NULL), ('tenant', 'breakage', NULL),
       ('tenant', 'receivable', %(tenant)s), ('tenant', 'wallet', %(tenant)s)
ON CONFLICT (ledger, kind, owner_id) DO NOTHING
"""

OPEN_BALANCE = """
INSERT INTO credits_balance (account_id, credit_limit, hard_floor)
SELECT id, %(limit)s, -%(limit)s FROM credits_account
WHERE ledger = 'tenant' AND kind = 'wallet' AND owner_id = %(tenant)s
ON CONFLICT (account_id) DO NOTHING
"""

# What has expired is not available, though it is posted until somebody touches the wallet.
WALLET = """
SELECT a.id, b.posted, b.held, b.credit_limit,
       credits_room(b) - coalesce((
           SELECT sum(l.remaining - l.reserved) FROM credits_lot l
           WHERE l.account_id = a.id AND NOT l.spent AND l.expires_at <= clock_timestamp()), 0), b.owed
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
SELECT credits_fund_lot(
    %(wallet)s::bigint,
    (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'issuer' AND owner_id IS NULL),
    %(amount)s::bigint, %(key)s::text, %(code)s::text, %(category)s::text, %(priority)s::integer,
    %(expires_at)s::timestamptz, NULL, NULL)
"""

SAME_GRANT = """
SELECT 1 FROM credits_lot l JOIN credits_transfer t ON t.op_key = l.source_key
WHERE l.source_key = %(key)s AND l.account_id = %(wallet)s AND l.amount = %(amount)s AND t.code = %(code)s
  AND l.priority = %(priority)s AND l.expires_at IS NOT DISTINCT FROM %(expires_at)s::timestamptz
"""

HOLD = """
SELECT placed_runs, refused, low FROM credits_place_holds(
    %(tenant)s::bigint, %(jobs)s::uuid[], %(runs)s::int[], %(amounts)s::bigint[], %(review)s::float8, %(paced)s::boolean)
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

CLOSE = """
SELECT hold_id, job_id, run, captured, overrun FROM credits_close_holds(
    %(jobs)s::uuid[], %(runs)s::int[], %(actuals)s::bigint[], %(policies)s::text[], %(reason)s::text)
"""

REFUND = """
SELECT credits_fund_lot(
    t.debit_id, t.credit_id, %(amount)s::bigint, %(key)s::text, 'refund', 'paid', %(priority)s::integer, NULL,
    t.hold_id, t.id)
FROM credits_hold h JOIN credits_transfer t ON t.op_key = 'settle:' || h.id
WHERE h.job_id = %(job)s::uuid AND h.run = %(run)s AND h.attempt = 0
"""

SAME_REFUND = """
SELECT 1 FROM credits_transfer t JOIN credits_hold h ON h.id = t.hold_id
WHERE t.op_key = %(key)s AND t.amount = %(amount)s AND h.job_id = %(job)s::uuid AND h.run = %(run)s
"""

EXPIRE_DUE = "SELECT credits_expire_due(%(limit)s::int)"


def open_wallet(tenant_id: int, credit_limit: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(OPEN_ACCOUNTS, {"tenant": tenant_id})
        cursor.execute(OPEN_BALANCE, {"tenant": tenant_id, "limit": credit_limit})


class Wallet(NamedTuple):
    """A wallet as last committed; amounts in micro-credits."""

    account_id: int
    posted: int
    held: int
    credit_limit: int
    available: int
    owed: int


def wallet(tenant_id: int) -> Wallet | None:
    """None: the tenant has none."""
    row = first(WALLET, tenant=tenant_id)
    return None if row is None else Wallet(*map(int, row))


def wallet_of(tenant_id: int) -> Wallet:
    """Raises NoWallet."""
    if (found := wallet(tenant_id)) is None:
        raise NoWallet(tenant_id)
    return found


def lock_wallets(tenant_ids: Sequence[int]) -> None:
    first(LOCK_WALLETS, tenants=list(tenant_ids))


def book_grant(**terms: Any) -> bool:
    """False when the key is taken. Terms: wallet, amount, key, code, category, priority, expires_at."""
    return bool((first(GRANT, **terms) or (False,))[0])


def is_same_grant(**terms: Any) -> bool:
    return first(SAME_GRANT, **terms) is not None


def place_holds(
    tenant_id: int, jobs: list[UUID], runs: list[int], amounts: list[int], review_seconds: float, *, paced: bool
) -> Row:
    """(how many were new, why they were refused or None, whether the tenant is to be told that little is left).

    Why: credits (also when there is no wallet), day, month, pace, all_day, all_month.
    """
    rows = all_rows(HOLD, tenant=tenant_id, jobs=jobs, runs=runs, amounts=amounts, review=review_seconds, paced=paced)
    return rows[0]


def first_other_hold(tenant_id: int, jobs: list[UUID], runs: list[int], amounts: list[int]) -> Row | None:
    """(job id, run) of one that stands with another amount or under another wallet."""
    return first(OTHER_HOLDS, tenant=tenant_id, jobs=jobs, runs=runs, amounts=amounts)


def close_holds(
    jobs: list[UUID], runs: list[int], actuals: list[int] | None, policies: list[str] | None, reason: str
) -> list[Row]:
    """(hold id, job id, run, captured, overrun) of each hold that was open; `actuals` None releases them."""
    return all_rows(CLOSE, jobs=jobs, runs=runs, actuals=actuals, policies=policies, reason=reason)


def book_refund(job_id: UUID, run: int, amount: int, key: str, priority: int) -> bool | None:
    """False when the key is taken, None when this run was not charged."""
    row = first(REFUND, job=job_id, run=run, amount=amount, key=key, priority=priority)
    return None if row is None else bool(row[0])


def is_same_refund(job_id: UUID, run: int, amount: int, key: str) -> bool:
    return first(SAME_REFUND, job=job_id, run=run, amount=amount, key=key) is not None


def expire_due(limit: int) -> int:
    return int((first(EXPIRE_DUE, limit=limit) or (0,))[0])


def run(sql: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def first(sql: str, **parameters: Any) -> Row | None:
    return next(iter(all_rows(sql, **parameters)), None)


def all_rows(sql: str, **parameters: Any) -> list[Row]:
    with connection.cursor() as cursor:
        execute(cursor, sql, parameters)
        rows: list[Row] = cursor.fetchall()
        return rows
