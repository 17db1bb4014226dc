"""A tenant's credit line: how far below zero its holds may go. The limit and the floor of the wallet, moved together."""

from dataclasses import dataclass

from django.db import transaction

from credits import ledger, queries
from credits.errors import NoWallet

# `in_use` is counted as the ledger counts it for a floor: what is free in lots may expire, so it is no cover.
_LINE = """
SELECT b.credit_limit, b.hard_floor, greatest(0, b.held - b.posted + l.free)::bigint,
       (credits_room(b) - l.expired)::bigint
FROM credits_account a
JOIN credits_balance b ON b.account_id = a.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(remaining - reserved), 0) AS free,
           coalesce(sum(remaining - reserved) FILTER (WHERE expires_at <= clock_timestamp()), 0) AS expired
    FROM credits_lot WHERE account_id = a.id AND NOT spent) l
WHERE a.ledger = 'tenant' AND a.kind = 'wallet' AND a.owner_id = %(tenant)s
"""


@dataclass(frozen=True, slots=True)
class Line:
    """Micro-credits. New holds go down to `-limit`; nothing can ever pass `floor`, which is at most 0.

    `in_use` is what is used and held on credit, `available` what a hold may take now.
    """

    limit: int
    floor: int
    in_use: int
    available: int

    def moved_to(self, limit: int) -> "Line":
        """The floor goes with the limit, but stays where it is as long as more than the new limit is in use."""
        floor = -limit if self.in_use <= limit else self.floor
        more = min(limit, -floor) - min(self.limit, -self.floor)
        return Line(limit, floor, self.in_use, self.available + more)


def line_of(tenant_id: int) -> Line:
    """The line as last committed; locks nothing. Raises NoWallet."""
    found = queries.all_rows(_LINE, tenant=tenant_id)
    if not found:
        raise NoWallet(tenant_id)
    return Line(*found[0])


def set_line(tenant_id: int, limit: int) -> Line:
    """Moves the limit and the floor, and returns the line as it is then. Raises NoWallet, FloorInUse.

    Locks the balance; then counts, in a later statement, what lies under it. A second caller waits and starts from
    what the first left.
    """
    with transaction.atomic():
        ledger.lock_wallets([tenant_id])
        now = line_of(tenant_id)
        then = now.moved_to(limit)
        # At no moment may the limit reach below the floor: what is admitted would meet the CHECK.
        if then.floor < now.floor:
            ledger.set_floor(tenant_id, then.floor)
        ledger.set_credit_limit(tenant_id, limit)
        if then.floor > now.floor:
            ledger.set_floor(tenant_id, then.floor)
    return then
