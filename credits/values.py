"""What goes into the verbs of the ledger and what comes out of them. Amounts are micro-credits."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Category = Literal["promo", "paid"]


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
    """`available` is what a hold may take now: the credit line is in it, credits that have expired are not."""

    posted: int
    held: int
    available: int
    credit_limit: int


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
