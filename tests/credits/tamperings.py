"""What nobody may do to the ledger, also not in psql."""

# Refused as long as there is such a row; else it touches none.
TAMPERINGS = [
    "UPDATE credits_transfer SET amount = amount + 1",
    "DELETE FROM credits_transfer",
    "TRUNCATE credits_transfer CASCADE",
    "TRUNCATE credits_lot CASCADE",
    "DELETE FROM credits_hold",
    "UPDATE credits_hold SET status = 'open', resolved_at = NULL, captured = NULL WHERE status <> 'open'",
    "UPDATE credits_hold SET amount = amount + 1",
    "DELETE FROM credits_lot",
    "UPDATE credits_lot SET amount = amount + 1, remaining = remaining + 1",
    "UPDATE credits_lot SET reserved = remaining + 1",
    "UPDATE credits_holdlot SET amount = amount + 1",
    "UPDATE credits_balance SET held = -1",
    "UPDATE credits_balance SET posted = held + hard_floor - 1",
]
