"""Verbs that meet at one instant, thousands of times: `python -m tests.races --rounds 1000`."""
