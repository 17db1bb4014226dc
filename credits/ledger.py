"""The verbs of wallets: open one, grant, hold, settle, release, refund, expire; and those of `limits` and `late`.

With `upstream_accounts`, which does the same for accounts at providers, the only writers of money.

Amounts are integers of micro-credits. A tenant is charged per job: one hold per (job, run), closed once. Every verb
opens a transaction or joins the caller's without a savepoint, so a refusal takes the caller's transaction down with it
(wrap the call in an `atomic()` of its own to go on). The lock order is balance (tenants' before those of
upstream accounts), ceiling, hold, lot; many of a kind by id.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from credits import limits, queries
from credits.errors import LedgerConflict, NothingCharged, RefundExceedsCharge
from credits.late import book_late_completion
from credits.limits import budgets, pay_debt, set_ceiling, set_credit_limit, set_floor
from credits.models.lots import PRIORITY
from credits.reading import expiring, statement
from credits.values import (
    MAX_AMOUNT,
    MAX_SET,
    Budgets,
    Category,
    Closed,
    Closing,
    Entry,
    Expiring,
    HoldRequest,
    WalletBalance,
    check_amounts,
    check_size,
)

__all__ = [
    "MAX_AMOUNT",
    "MAX_SET",
    "Budgets",
    "Closed",
    "Closing",
    "Entry",
    "Expiring",
    "HoldRequest",
    "WalletBalance",
    "balances",
    "book_late_completion",
    "budgets",
    "expire_due",
    "expiring",
    "grant",
    "hold",
    "lock_wallets",
    "open_wallet",
    "pay_debt",
    "refund",
    "release",
    "set_ceiling",
    "set_credit_limit",
    "set_floor",
    "settle",
    "statement",
]

GRANTS: dict[str, Category] = {"grant_paid": "paid", "grant_promo": "promo"}


def open_wallet(tenant_id: int, credit_limit: int = 0) -> int:
    """The id of the tenant's wallet account, made if it is missing; an existing one keeps its limit.

    Locks only the rows it inserts; a second caller waits for the first and then finds them there.
    """
    check_amounts([credit_limit])
    if (found := queries.wallet(tenant_id)) is None:
        with transaction.atomic(savepoint=False):
            queries.open_wallet(tenant_id, credit_limit)
            found = queries.wallet_of(tenant_id)
    return found.account_id


def grant(
    tenant_id: int,
    amount: int,
    source_key: str,
    code: str = "grant_paid",
    *,
    category: Category | None = None,
    priority: int = PRIORITY,
    expires_at: datetime | None = None,
) -> bool:
    """A lot of credits for the wallet, once per source key. False: it was booked before; other content: LedgerConflict.

    `category` says the same as `code` (grant_paid, grant_promo). A lower priority is used first. Locks the balance, then
    makes the lot, which covers what is owed; a second caller waits and then finds the key taken.
    """
    check_amounts([amount], least=1)
    if category is not None:
        code = f"grant_{category}"
    if code not in GRANTS:
        raise ValueError(f"a grant is one of {', '.join(GRANTS)}, not {code!r}")
    terms = {
        "amount": amount,
        "key": f"grant:{source_key}",
        "code": code,
        "priority": priority,
        "expires_at": expires_at,
    }
    with transaction.atomic(savepoint=False):
        wallet_id = queries.wallet_of(tenant_id).account_id
        if queries.book_grant(wallet=wallet_id, category=GRANTS[code], **terms):
            return True
        # A statement of its own: only a later snapshot sees what a concurrent grant has just committed.
        if queries.is_same_grant(wallet=wallet_id, **terms):
            return False
        raise LedgerConflict(f"grant:{source_key} was booked with other content than {terms} for tenant {tenant_id}")


def lock_wallets(tenant_ids: Iterable[int]) -> None:
    """Locks the balance rows (FOR NO KEY UPDATE) in account-id order, until the caller's transaction ends.

    A second caller, and every hold or closing of these tenants, waits. Tenants without a wallet are passed over.
    """
    if tenants := sorted(set(tenant_ids)):
        queries.lock_wallets(tenants)


def hold(tenant_id: int, holds: Sequence[HoldRequest], review_seconds: float, *, paced: bool = False) -> bool:
    """Set aside the amounts of all these runs, or none. A hold that stands with the same amount is kept as it is.

    True: little is left now, and the tenant was not told yet. `paced`: while little is left, only after a pause. Inserts
    the holds, then locks the balance, which checks the credit line and the budgets; a second caller waits there and is
    checked against what the first left. Then the ceiling, where one is set; then expires what is due and reserves in the
    order of the lots. Raises InsufficientCredits, BudgetExceeded, Paced, LedgerConflict (same run, other amount),
    NoWallet.
    """
    check_amounts([request.amount for request in holds])
    if not holds:
        return False
    ordered = sorted(holds, key=lambda request: (request.job_id, request.run))
    columns = ([r.job_id for r in ordered], [r.run for r in ordered], [r.amount for r in ordered])
    with transaction.atomic(savepoint=False):
        placed, refused, low = queries.place_holds(tenant_id, *columns, review_seconds, paced=paced)
        if refused:
            raise limits.refusal(tenant_id, refused, sum(columns[2]))
        if placed < len(ordered) and (other := queries.first_other_hold(tenant_id, *columns)):
            raise LedgerConflict(f"job {other[0]} run {other[1]} is held with another amount or wallet")
        return bool(low)


def settle(closings: Sequence[Closing]) -> list[Closed]:
    """Charge each run's open hold and give back the rest; runs without an open hold are not in the answer.

    Locks the balances in account-id order, then the holds; a second caller waits at the balance and then finds the hold
    resolved. At most the hold is captured; usage above it is booked from loss or receivable.
    """
    check_amounts([closing.amount for closing in closings])
    by_run: dict[tuple[UUID, int], Closing] = {}
    for closing in closings:
        if by_run.setdefault((closing.job_id, closing.run), closing) != closing:
            raise LedgerConflict(f"job {closing.job_id} run {closing.run} is closed twice in one set, differently")
    if not by_run:
        return []
    with transaction.atomic(savepoint=False):
        actuals = [closing.amount for closing in by_run.values()]
        policies: list[str] = [closing.overrun for closing in by_run.values()]
        rows = queries.close_holds(*_columns(by_run), actuals, policies, "")
    return [Closed(job_id, run, captured, overrun) for _, job_id, run, captured, overrun in rows]


def release(refs: Sequence[tuple[UUID, int]], reason: str) -> list[tuple[UUID, int]]:
    """Give back the open holds of these (job, run); runs without an open hold are not in the answer.

    Locks the balances in account-id order, then the holds; a second caller waits at the balance and then finds the hold
    resolved.
    """
    check_size(len(refs))
    runs = list(dict.fromkeys(refs))
    if not runs:
        return []
    with transaction.atomic(savepoint=False):
        rows = queries.close_holds(*_columns(runs), None, None, reason)
    return [(job_id, run) for _, job_id, run, _, _ in rows]


def refund(job_id: UUID, run: int, amount: int, key: str) -> bool:
    """Give back a part of what a run was charged, once per key, as a new lot that never expires. False: booked before.

    Locks the balance. The database refuses more than was charged, all refunds together: RefundExceedsCharge. Raises
    NothingCharged when the run has no charge, LedgerConflict when the key was used with other content.
    """
    check_amounts([amount], least=1)
    op_key = f"refund:{key}"
    with transaction.atomic(savepoint=False):
        try:
            booked = queries.book_refund(job_id, run, amount, op_key, PRIORITY)
        except IntegrityError as error:
            if "transfer_reversal" in str(getattr(getattr(error.__cause__, "diag", None), "constraint_name", "")):
                raise RefundExceedsCharge(job_id, run, amount) from error
            raise
        if booked is None:
            raise NothingCharged(job_id, run)
        if not booked and not queries.is_same_refund(job_id, run, amount, op_key):
            raise LedgerConflict(f"{op_key} was booked with other content than {amount} for job {job_id} run {run}")
        return booked


def expire_due(limit: int = MAX_SET) -> int:
    """Takes what has expired from so many wallets at most, and says how much; wallets that are busy are passed over.

    For a periodic task. It only keeps the numbers pretty: a hold expires what is due before it takes anything.
    """
    with transaction.atomic(savepoint=False):
        return queries.expire_due(limit)


def balances(tenant_id: int) -> WalletBalance:
    """The wallet as last committed; locks nothing. Raises NoWallet."""
    found = queries.wallet_of(tenant_id)
    return WalletBalance(found.posted, found.held, found.available, found.credit_limit, found.owed)


def _columns(runs: Iterable[tuple[UUID, int]]) -> tuple[list[UUID], list[int]]:
    keys = list(runs)
    return [job_id for job_id, _ in keys], [run for _, run in keys]
