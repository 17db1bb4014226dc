"""What a wallet may use beyond what it has, and what it may use at all: credit line, floor, budgets, pace, and debts paid.

Budgets and pace of a tenant stand at the tenant; those of all tenants together are the one row of the ceiling. A hold asks
them under the lock of the balance. `ledger.py` offers these verbs with its own.
"""

from django.db import transaction

from credits import queries
from credits.errors import (
    BudgetExceeded,
    CreditsError,
    FloorInUse,
    InsufficientCredits,
    LedgerConflict,
    NotOwed,
    NoWallet,
    Paced,
)
from credits.values import Budgets, check_amounts

LEAST_PAUSE_SECONDS = 0.1  # told to whom came while the pause ended

_SET_CREDIT_LIMIT = """
UPDATE credits_balance SET credit_limit = %(limit)s::bigint, version = version + 1, low_since = NULL, paced_until = NULL
WHERE account_id = %(wallet)s::bigint
"""

# What the budgets of the tenant, or of all tenants, allow and have used in the period of now.
_BUDGETS = """
SELECT t.day_budget, t.month_budget,
       b.held + CASE WHEN b.charged_on >= p.today THEN b.day_charged ELSE 0 END,
       b.held + CASE WHEN b.charged_on >= date_trunc('month', p.today) THEN b.month_charged ELSE 0 END,
       greatest(0, extract(epoch FROM b.paced_until - clock_timestamp()))
FROM (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) p
CROSS JOIN credits_account a JOIN credits_balance b ON b.account_id = a.id JOIN tenants_tenant t ON t.id = a.owner_id
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s::bigint
"""

# The begin of the next period of the database's clock.
_NEXT_PERIOD = """
SELECT (date_trunc(%(period)s::text, statement_timestamp() AT TIME ZONE 'UTC') + ('1 ' || %(period)s::text)::interval)
       AT TIME ZONE 'UTC'
"""

_BUDGETS_OF_ALL = """
SELECT c.day_budget, c.month_budget, u.in_day, u.in_month
FROM credits_ceiling c, credits_ceiling_used((statement_timestamp() AT TIME ZONE 'UTC')::date) u
"""

# What a hold asks (place_holds), without its locks: as last committed, and only now.
_WHY_NOT = """
SELECT CASE WHEN %(needed)s::bigint = 0 THEN NULL ELSE coalesce(
    CASE WHEN credits_room(b) - l.expired < %(needed)s::bigint THEN 'credits' END,
    credits_why_refused(b, %(needed)s::bigint, p.today, t.day_budget, t.month_budget, t.low_below),
    (SELECT CASE WHEN u.in_day + %(needed)s::bigint > c.day_budget THEN 'all_day'
                 WHEN u.in_month + %(needed)s::bigint > c.month_budget THEN 'all_month' END
     FROM credits_ceiling c CROSS JOIN LATERAL credits_ceiling_used(p.today) u
     WHERE c.day_budget IS NOT NULL OR c.month_budget IS NOT NULL)) END
FROM (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) p
CROSS JOIN credits_account a JOIN credits_balance b ON b.account_id = a.id LEFT JOIN tenants_tenant t ON t.id = a.owner_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(remaining - reserved), 0)::bigint AS expired FROM credits_lot
    WHERE account_id = a.id AND NOT spent AND expires_at <= clock_timestamp()) l
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s::bigint
"""

_SET_CEILING = """
INSERT INTO credits_ceiling (id, day_budget, month_budget) VALUES (1, %(day)s::bigint, %(month)s::bigint)
ON CONFLICT (id) DO UPDATE SET day_budget = EXCLUDED.day_budget, month_budget = EXCLUDED.month_budget
"""

# The receivable is debited when usage is owed and credited when it is paid.
_PAY_DEBT = """
INSERT INTO credits_transfer (op_key, ledger, debit_id, credit_id, amount, code)
SELECT %(key)s::text, 'tenant', i.id, r.id, %(amount)s::bigint, 'repay'
FROM credits_account i, credits_account r
WHERE i.ledger = 'tenant' AND i.kind = 'issuer' AND i.owner_id IS NULL
  AND r.ledger = 'tenant' AND r.kind = 'receivable' AND r.owner_id = %(tenant)s::bigint
ON CONFLICT (op_key) DO NOTHING RETURNING id
"""

_OWE_LESS = """
UPDATE credits_balance SET owed = owed - %(amount)s::bigint, version = version + 1, low_since = NULL, paced_until = NULL
WHERE account_id = %(wallet)s::bigint
"""

_SAME_PAYMENT = """
SELECT 1 FROM credits_transfer t JOIN credits_account r ON r.id = t.credit_id
WHERE t.op_key = %(key)s::text AND t.amount = %(amount)s::bigint AND r.kind = 'receivable' AND r.owner_id = %(tenant)s::bigint
"""

# What is free may expire, so it is no cover: the floor has to lie below what is used and held on credit.
_SET_FLOOR = """
UPDATE credits_balance b SET hard_floor = %(floor)s::bigint, version = version + 1
FROM (SELECT coalesce(sum(remaining - reserved), 0) AS free FROM credits_lot
      WHERE account_id = %(wallet)s::bigint AND NOT spent) l
WHERE b.account_id = %(wallet)s::bigint AND b.posted - b.held - l.free >= %(floor)s::bigint
RETURNING b.account_id
"""


def set_credit_limit(tenant_id: int, limit: int) -> None:
    """How far below zero new holds may go. What is used or held already stays; the floor is another matter.

    Locks the balance; a hold that waits for it is checked against the new limit.
    """
    check_amounts([limit])
    with transaction.atomic(savepoint=False):
        queries.run(_SET_CREDIT_LIMIT, wallet=queries.wallet_of(tenant_id).account_id, limit=limit)


def set_floor(tenant_id: int, floor: int) -> None:
    """What posted less held can never pass, at most 0. Raises FloorInUse when more is used and held on credit.

    Locks the balance; then counts, in a later statement, what lies under it.
    """
    check_amounts([-floor])
    with transaction.atomic(savepoint=False):
        wallet_id = queries.wallet_of(tenant_id).account_id
        queries.lock_wallets([tenant_id])
        if queries.first(_SET_FLOOR, wallet=wallet_id, floor=floor) is None:
            raise FloorInUse(tenant_id, floor)


def set_ceiling(day: int | None, month: int | None) -> None:
    """What all tenants together may be charged and have held in a day and a month of UTC; None: no budget.

    Locks the ceiling's row; a hold that waits there is checked against the new budgets. Of a first one
    holds that are being made know nothing.
    """
    check_amounts([budget for budget in (day, month) if budget is not None])
    queries.run(_SET_CEILING, day=day, month=month)


def pay_debt(tenant_id: int, amount: int, key: str) -> bool:
    """Books that the tenant paid what it owed for usage above its holds, once per key. False: it was booked before.

    Locks the balance; a second caller waits and then finds the key taken. Raises NotOwed for more than is owed,
    LedgerConflict when the key was used with other content.
    """
    check_amounts([amount], least=1)
    terms = {"tenant": tenant_id, "amount": amount, "key": f"repay:{key}"}
    with transaction.atomic(savepoint=False):
        wallet_id = queries.wallet_of(tenant_id).account_id
        queries.lock_wallets([tenant_id])
        if queries.first(_SAME_PAYMENT, **terms):
            return False
        owed = queries.wallet_of(tenant_id).owed
        if amount > owed:
            raise NotOwed(tenant_id, amount, owed)
        if queries.first(_PAY_DEBT, **terms) is None:
            raise LedgerConflict(f"{terms['key']} was booked with other content than {amount} for tenant {tenant_id}")
        queries.run(_OWE_LESS, wallet=wallet_id, amount=amount)
        return True


def budgets(tenant_id: int | None) -> Budgets:
    """The budgets of the tenant (None: of all tenants together) and what is used of them now; locks nothing."""
    row = queries.first(_BUDGETS_OF_ALL) if tenant_id is None else queries.first(_BUDGETS, tenant=tenant_id)
    return Budgets(None, None, 0, 0) if row is None else Budgets(*row[:4])


def why_not(tenant_id: int, amount: int) -> CreditsError | None:
    """What a submit that holds so much would be refused for now, as `ledger.hold` raises it; None: nothing. Locks nothing."""
    check_amounts([amount])
    row = queries.first(_WHY_NOT, tenant=tenant_id, needed=amount)
    why = "credits" if row is None else row[0]
    return None if why is None else refusal(tenant_id, why, amount)


def refusal(tenant_id: int, why: str, required: int) -> CreditsError:
    """The error of a hold that was refused for `why` (a word of queries.place_holds), with the numbers of now."""
    if why in ("day", "month", "all_day", "all_month"):
        whose, period = ("all", why.removeprefix("all_")) if why.startswith("all_") else ("tenant", why)
        found = budgets(None if whose == "all" else tenant_id)
        budget, used = (found.day, found.used_in_day) if period == "day" else (found.month, found.used_in_month)
        [[resets_at]] = queries.all_rows(_NEXT_PERIOD, period=period)
        return BudgetExceeded(whose, period, budget or 0, used, required, resets_at=resets_at)
    if why == "pace":
        row = queries.first(_BUDGETS, tenant=tenant_id)
        return Paced(max(LEAST_PAUSE_SECONDS, float(row[4] or 0) if row else 0))
    if (wallet := queries.wallet(tenant_id)) is None:
        return NoWallet(tenant_id)
    # What did fit is being rolled back: the whole request is told against the wallet as it stands.
    return InsufficientCredits(required, wallet.available, wallet.held)
