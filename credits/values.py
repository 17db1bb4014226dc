"""What goes into the verbs of the ledger and what comes out of them. Amounts are micro-credits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Category = Literal["promo", "paid"]
MAX_SET = 1_000  # rows of one call; a larger set holds its locks too long
MAX_AMOUNT = 10**15  # micro-credits of one entry: a thousand million credits


@dataclass(frozen=True, slots=True)
class HoldRequest:
    job_id: UUID
    run: int
    amount: int


@dataclass(frozen=True, slots=True)
class Closing:
    """What one run really cost; usage above the hold is our loss (absorb) or owed by the tenant (debt)."""

    job_id: UUID
    run: int
    amount: int
    overrun: Literal["absorb", "debt"] = "absorb"


@dataclass(frozen=True, slots=True)
class Closed:
    job_id: UUID
    run: int
    captured: int
    overrun: int


@dataclass(frozen=True, slots=True)
class WalletBalance:
    """`available` is what a hold may take now: the credit line is in it, what has expired or is owed is not."""

    posted: int
    held: int
    available: int
    credit_limit: int
    owed: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as its wallet sees it: `amount` is signed, `posted` is what the wallet had after it.

    `job_id` and `run` stand with what a job caused, `category` and `expires_at` with what concerns one lot.
    """

    id: int
    at: datetime
    code: str
    op_key: str
    amount: int
    posted: int
    job_id: UUID | None
    run: int | None
    category: Category | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Expiring:
    """Free credits of a wallet that expire at one moment."""

    expires_at: datetime
    amount: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """What may be charged and held in a day and a month of UTC (None: no budget), and what is charged and held."""

    day: int | None
    month: int | None
    used_in_day: int
    used_in_month: int


def check_amounts(amounts: Sequence[int], least: int = 0) -> None:
    """Raises ValueError for what is no amount of micro-credits, and for too many."""
    check_size(len(amounts))
    for amount in amounts:
        # A float that slipped through would be rounded by the database without a word.
        if type(amount) is not int or not least <= amount <= MAX_AMOUNT:
            raise ValueError(f"an amount is an integer of micro-credits from {least} to {MAX_AMOUNT}, not {amount!r}")


def check_size(rows: int) -> None:
    """Raises ValueError for a set that is too large."""
    if rows > MAX_SET:
        raise ValueError(f"{rows} rows in one call, at most {MAX_SET}")
