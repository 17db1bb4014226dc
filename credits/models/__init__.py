"""The tables of the ledger. Only the verbs of this app write them; CHECKs and triggers hold what it promises against others.

Money is a bigint of micro-credits (1 credit = 1 000 000). Defaults stand in the database because rows are written by
set-based SQL (the functions beside the migrations, and `queries.py`).
"""

from credits.models.accounts import TENANT_LEDGER, Account, Balance, Ceiling, Reading, resource_ledger
from credits.models.holds import Hold, HoldLot
from credits.models.lots import Allowance, Lot
from credits.models.reviews import HoldReview, HoldWalk
from credits.models.transfers import Transfer

__all__ = [
    "TENANT_LEDGER",
    "Account",
    "Allowance",
    "Balance",
    "Ceiling",
    "Hold",
    "HoldLot",
    "HoldReview",
    "HoldWalk",
    "Lot",
    "Reading",
    "Transfer",
    "resource_ledger",
]
