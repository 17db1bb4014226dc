"""What the accounts at the providers have left: set aside with a session, charged by attempt, corrected by readings.

Each pool has a ledger of its own (its provider's credits are nobody else's unit), with an account for each upstream account
that is tracked. It has no hard floor: what the provider says happened, happened. Amounts are integers of micro-credits.
The balances of tenants come before those of upstream accounts in the lock order; many of a kind by id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from credits import queries
from credits.errors import LedgerConflict, NotTracked
from credits.models.accounts import resource_ledger
from credits.values import check_amounts, check_size

_OPEN = """
INSERT INTO credits_account (ledger, kind, owner_id)
VALUES (%(book)s, 'upstream_spend', NULL), (%(book)s, 'upstream_topup', NULL), (%(book)s, 'drift', NULL),
       (%(book)s, 'upstream', %(owner)s)
ON CONFLICT (ledger, kind, owner_id) DO NOTHING
"""
_OPEN_BALANCE = """
INSERT INTO credits_balance (account_id, hard_floor)
SELECT id, %(floor)s FROM credits_account WHERE ledger = %(book)s AND kind = 'upstream' AND owner_id = %(owner)s
ON CONFLICT (account_id) DO NOTHING
"""
_LOCKED = """
SELECT b.account_id, b.posted, b.held FROM credits_balance b JOIN credits_account a ON a.id = b.account_id
WHERE a.ledger = %(book)s AND a.kind = 'upstream' AND a.owner_id = %(owner)s FOR NO KEY UPDATE OF b
"""
_BOOK = """
WITH booked AS (
    INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
    SELECT %(key)s::text, %(book)s::text, CASE WHEN %(amount)s::bigint > 0 THEN other.id ELSE %(account)s::bigint END,
           CASE WHEN %(amount)s::bigint > 0 THEN %(account)s::bigint ELSE other.id END, abs(%(amount)s::bigint), %(code)s::text
    FROM credits_account other WHERE other.ledger = %(book)s::text AND other.kind = %(other)s::text
    ON CONFLICT (op_key) DO NOTHING RETURNING id)
UPDATE credits_balance SET posted = posted + %(amount)s::bigint, version = version + 1
WHERE account_id = %(account)s::bigint AND EXISTS (SELECT FROM booked) RETURNING account_id
"""
_SAME = """
SELECT 1 FROM credits_transfer
WHERE op_key = %(key)s::text AND credit_id = %(account)s::bigint AND ledger = %(book)s::text AND amount = %(amount)s::bigint
"""
_READING = """
INSERT INTO credits_reading (account_id, key, said, posted, held, drift, booked)
VALUES (%(account)s::bigint, %(key)s::text, %(said)s::bigint, %(posted)s::bigint, %(held)s::bigint, %(drift)s::bigint,
        %(booked)s::boolean)
ON CONFLICT (account_id, key) DO NOTHING RETURNING id
"""
_KNOWN_READING = """
SELECT said, posted, held, drift, booked FROM credits_reading WHERE account_id = %(account)s AND key = %(key)s
"""
_AVAILABLE = """
SELECT a.owner_id, b.posted - b.held FROM credits_account a JOIN credits_balance b ON b.account_id = a.id
WHERE a.ledger = %(book)s AND a.kind = 'upstream' AND a.owner_id = ANY(%(owners)s::bigint[])
"""
_HOLD = """
SELECT credits_hold_upstream(%(book)s::text, %(owners)s::bigint[], %(jobs)s::uuid[], %(runs)s::int[], %(attempts)s::int[],
                             %(amounts)s::bigint[], %(review)s::float8)
"""
_CLOSE = """
SELECT credits_close_upstream(%(jobs)s::uuid[], %(runs)s::int[], %(attempts)s::int[], %(spent)s::bigint[], %(why)s::text)
"""
_LOWEST_FLOOR = -(10**18)


@dataclass(frozen=True, slots=True)
class AttemptHold:
    """What an attempt is expected to use of its upstream account."""

    owner_id: int  # the upstream account
    job_id: UUID
    run: int
    attempt: int
    amount: int


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What an attempt used; None: nothing, it was not executed."""

    job_id: UUID
    run: int
    attempt: int
    spent: int | None


@dataclass(frozen=True, slots=True)
class Read:
    """A reading against the ledger. `drift` is what attempts in flight do not explain; not `booked`: too far off."""

    said: int
    posted: int
    held: int
    drift: int
    booked: bool


def track(pool_id: int, owner_id: int) -> None:
    """From now on this upstream account has a balance. Locks only the rows it inserts; a second caller finds them."""
    book = resource_ledger(pool_id)
    with transaction.atomic(savepoint=False):
        queries.run(_OPEN, book=book, owner=owner_id)
        queries.run(_OPEN_BALANCE, book=book, owner=owner_id, floor=_LOWEST_FLOOR)


def top_up(pool_id: int, owner_id: int, amount: int, key: str) -> bool:
    """Credits bought at the provider, once per key. False: it was booked before; other content: LedgerConflict.

    Locks the balance; a second caller waits and then finds the key taken. Raises NotTracked.
    """
    check_amounts([amount], least=1)
    book, op_key = resource_ledger(pool_id), f"topup:{key}"
    with transaction.atomic(savepoint=False):
        account, _, _ = _locked(book, owner_id)
        terms = {"key": op_key, "book": book, "amount": amount}
        if queries.first(_BOOK, account=account, other="upstream_topup", code="topup", **terms):
            return True
        if queries.first(_SAME, account=account, **terms):
            return False
        raise LedgerConflict(f"{op_key} was booked with other content than {amount}")


def read(
    pool_id: int,
    owner_id: int,
    said: int,
    key: str,
    most: int | None = None,
    *,
    before: tuple[int, int] | None = None,
) -> Read:
    """The provider says that so much is left: what differs is booked as drift, once per key; the answer of the first stays.

    Attempts in flight may have been charged by the provider or not, so anything from posted less held to posted is no
    drift. `before`: (posted, held) when the provider was asked; then anything that the account may have had meanwhile is
    no drift. A drift above `most` is kept but not booked: a wrong reading must not empty a pool. Locks the balance; a
    second caller waits and gets the first one's answer. Raises NotTracked.
    """
    check_amounts([abs(said)])
    book = resource_ledger(pool_id)
    with transaction.atomic(savepoint=False):
        account, posted, held = _locked(book, owner_id)
        if known := queries.first(_KNOWN_READING, account=account, key=key):
            return Read(*known)
        if before is not None:
            lowest = min(posted - held, before[0] - before[1])
            posted = max(posted, before[0])
            held = posted - lowest
        drift = drift_of(said, posted, held)
        found = Read(said, posted, held, drift, booked=most is None or abs(drift) <= most)
        queries.run(
            _READING, account=account, key=key, said=said, posted=posted, held=held, drift=drift, booked=found.booked
        )
        if found.booked and drift:
            op_key = f"drift:{owner_id}:{key}"
            queries.first(_BOOK, account=account, other="drift", code="drift", key=op_key, book=book, amount=drift)
        return found


def drift_of(said: int, posted: int, held: int) -> int:
    """How far a reading is off what the account may have at its provider: from posted less held to posted."""
    return max(0, said - posted) + min(0, said - (posted - held))


def available(pool_id: int, owner_ids: Sequence[int]) -> dict[int, int]:
    """What each tracked account has for new attempts; those not tracked are not in it. Locks nothing."""
    rows = queries.all_rows(_AVAILABLE, book=resource_ledger(pool_id), owners=list(owner_ids))
    return {int(owner): int(left) for owner, left in rows}


def hold(pool_id: int, holds: Sequence[AttemptHold], review_seconds: float) -> bool:
    """Sets aside what these attempts are expected to use; False when an account has not so much: then roll back.

    Locks the balances in the order of their ids, then inserts the holds; a second caller waits and is checked against
    what the first left.
    """
    check_amounts([wanted.amount for wanted in holds])
    if not holds:
        return True
    columns = {
        "owners": [hold.owner_id for hold in holds],
        "jobs": [hold.job_id for hold in holds],
        "runs": [hold.run for hold in holds],
        "attempts": [hold.attempt for hold in holds],
        "amounts": [hold.amount for hold in holds],
    }
    with transaction.atomic(savepoint=False):
        row = queries.first(_HOLD, book=resource_ledger(pool_id), review=review_seconds, **columns)
    return bool(row and row[0])


def close(ends: Sequence[AttemptEnd], why: str = "") -> int:
    """Charges what these attempts used, or gives back; those that hold nothing are passed over. Returns how many it closed.

    Locks the balances in the order of their ids, then the holds; a second caller waits and finds them closed.
    """
    check_size(len(ends))
    if not ends:
        return 0
    columns = {
        "jobs": [end.job_id for end in ends],
        "runs": [end.run for end in ends],
        "attempts": [end.attempt for end in ends],
        "spent": [end.spent for end in ends],
    }
    with transaction.atomic(savepoint=False):
        row = queries.first(_CLOSE, why=why, **columns)
    return int(row[0]) if row else 0


def _locked(book: str, owner_id: int) -> tuple[int, int, int]:
    row = queries.first(_LOCKED, book=book, owner=owner_id)
    if row is None:
        raise NotTracked(owner_id)
    return int(row[0]), int(row[1]), int(row[2])
