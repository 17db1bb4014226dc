"""What the ledger can refuse, named as facts. Amounts are micro-credits."""


class CreditsError(Exception):
    """Base of everything the ledger and the prices refuse."""


class InsufficientCredits(CreditsError):
    """A hold would pass the wallet's credit line; nothing was held."""

    def __init__(self, required: int, available: int, held: int) -> None:
        super().__init__(f"{required} micro-credits required, {available} available ({held} held)")
        self.required = required
        self.available = available
        self.held = held


class LedgerConflict(CreditsError):
    """The same key was booked before with other content; nothing was changed."""


class NoWallet(CreditsError):
    """The tenant has no wallet account yet."""

    def __init__(self, tenant_id: int) -> None:
        super().__init__(f"tenant {tenant_id} has no wallet")
        self.tenant_id = tenant_id


class PriceError(CreditsError, ValueError):
    """A value that cannot be a price; the message says why."""
