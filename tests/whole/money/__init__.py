"""Faults that users of comparable systems reported of their money, over HTTP, in real processes."""
