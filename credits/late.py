"""A success that surfaced after its hold was given back: told in the books, charged to nobody. Part of the ledger's verbs."""

from uuid import UUID

from credits.queries import all_rows

# A resolved hold never changes again, so nothing has to be locked. Scalar subqueries: a missing account is a NULL that
# the table refuses, never a row quietly not written.
_BOOK = """
INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code, hold_id)
SELECT 'late:' || h.job_id || ':' || h.run, 'tenant',
       (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'loss' AND owner_id IS NULL),
       (SELECT id FROM credits_account WHERE ledger = 'tenant' AND kind = 'revenue' AND owner_id IS NULL),
       least(%(amount)s::bigint, h.amount), 'late_completion', h.id
FROM credits_hold h
WHERE h.job_id = %(job)s::uuid AND h.run = %(run)s AND h.attempt = 0 AND h.status = 'released'
  AND least(%(amount)s::bigint, h.amount) > 0
ON CONFLICT (op_key) DO NOTHING RETURNING amount
"""


def book_late_completion(job_id: UUID, run: int, amount: int) -> int:
    """Book from loss to revenue what the run would have cost, at most what was held, once per run; the wallet stays.

    Returns what was booked now, in micro-credits: 0 where nothing was held, the hold is not released, or it was booked
    before. Locks nothing; a second caller waits at the key of the entry and books nothing.
    """
    if amount < 0:
        raise ValueError(f"a late completion costs at least 0 micro-credits, not {amount}")
    rows = all_rows(_BOOK, job=job_id, run=run, amount=amount)
    return int(rows[0][0]) if rows else 0
