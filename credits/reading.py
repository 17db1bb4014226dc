"""What a wallet shows its tenant: its entries, newest first, and what expires next. Locks nothing."""

from credits import queries
from credits.values import Entry, Expiring

MAX_PAGE = 1_000  # entries of one page
MAX_EXPIRING = 100  # moments of expiry that are listed

# What the wallet had after an entry: what it has now, less all that came later. Entries get their ids under the lock of
# the balance, so the order of the ids is the order in which they happened.
_STATEMENT = """
WITH wallet AS (
    SELECT b.account_id AS id, b.posted FROM credits_balance b JOIN credits_account a ON a.id = b.account_id
    WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s
), page AS (
    (SELECT t.*, t.amount AS change FROM credits_transfer t, wallet
     WHERE t.credit_id = wallet.id AND t.id < %(before)s ORDER BY t.id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT t.*, -t.amount FROM credits_transfer t, wallet
     WHERE t.debit_id = wallet.id AND t.id < %(before)s ORDER BY t.id DESC LIMIT %(limit)s)
    ORDER BY id DESC LIMIT %(limit)s
), later AS (
    SELECT coalesce(sum(change), 0) AS change FROM (
        SELECT t.amount AS change FROM credits_transfer t, wallet WHERE t.credit_id = wallet.id AND t.id >= %(before)s
        UNION ALL
        SELECT -t.amount FROM credits_transfer t, wallet WHERE t.debit_id = wallet.id AND t.id >= %(before)s) newer
)
SELECT p.id, p.created_at, p.code, p.op_key, p.change,
       (wallet.posted - later.change - (sum(p.change) OVER (ORDER BY p.id DESC) - p.change))::bigint,
       h.job_id, h.run, l.category, l.expires_at
FROM wallet, later, page p
LEFT JOIN credits_hold h ON h.id = p.hold_id
LEFT JOIN credits_lot l ON l.id = p.lot_id
ORDER BY p.id DESC
"""

_EXPIRING = """
SELECT l.expires_at, sum(l.remaining - l.reserved)::bigint FROM credits_lot l JOIN credits_account a ON a.id = l.account_id
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s
  AND NOT l.spent AND l.remaining > l.reserved AND l.expires_at > clock_timestamp()
GROUP BY l.expires_at ORDER BY l.expires_at LIMIT %(limit)s
"""
_NEWEST = 2**63 - 1


def statement(tenant_id: int, before_id: int | None = None, limit: int = 100) -> list[Entry]:
    """A page of the wallet's entries, those with ids below `before_id`, newest first.

    A page far back adds up all entries newer than it, once. No wallet: no entries.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"a page has 1 to {MAX_PAGE} entries, not {limit}")
    before = _NEWEST if before_id is None else before_id
    return [Entry(*row) for row in queries.all_rows(_STATEMENT, tenant=tenant_id, before=before, limit=limit)]


def expiring(tenant_id: int) -> list[Expiring]:
    """What is free and will expire, soonest first. What open holds have reserved is not in it."""
    return [Expiring(*row) for row in queries.all_rows(_EXPIRING, tenant=tenant_id, limit=MAX_EXPIRING)]
