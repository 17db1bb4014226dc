"""The ledger pressed: a long walk of its model, torn connections, changed code, one tenant that everybody wants."""
