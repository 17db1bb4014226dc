"""Questions to sessions and to the health of their accounts, one module to a subject."""
