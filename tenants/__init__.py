"""Customers: their keys, limits and shares."""
