"""Inputs and results that are too large, or no JSON: rows here, their bytes in Django's storage."""
