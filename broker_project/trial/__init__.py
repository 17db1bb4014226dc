"""Trying a mapping before jobs depend on it: live against the upstream, or over answers that were recorded."""
