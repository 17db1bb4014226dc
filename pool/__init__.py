"""Upstream capacity: pools, accounts and their sessions."""
