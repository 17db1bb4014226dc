"""Triggers that several tables of the ledger share."""

import pgtrigger


def no_truncate() -> pgtrigger.Trigger:
    """Refuses TRUNCATE, which no row-level trigger sees."""
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION 'pgtrigger: Cannot truncate table %', TG_TABLE_NAME;",
    )
