"""Faults that users of comparable systems reported of their money: each kind as an experiment on the ledger and its jobs."""
