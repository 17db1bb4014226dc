"""What the ledger can refuse, named as facts. Amounts are micro-credits."""

from datetime import datetime
from uuid import UUID


class CreditsError(Exception):
    """Base of everything the ledger and the prices refuse."""


class InsufficientCredits(CreditsError):
    """A hold would pass the wallet's credit line; nothing was held."""

    def __init__(self, required: int, available: int, held: int) -> None:
        super().__init__(f"{required} micro-credits required, {available} available ({held} held)")
        self.required = required
        self.available = available
        self.held = held


class BudgetExceeded(CreditsError):
    """A hold would pass a budget; nothing was held. `whose`: tenant, or all for that of all tenants together.

    `resets_at`: the begin of the next day or month (UTC), when nothing is charged yet and what is held still counts.
    """

    def __init__(self, whose: str, period: str, budget: int, used: int, required: int, *, resets_at: datetime) -> None:
        of_whom = "of all tenants" if whose == "all" else "of the tenant"
        super().__init__(
            f"{required} micro-credits more would pass the budget {of_whom} of a {period}: {used} of {budget} are used"
        )
        self.whose, self.period = whose, period
        self.budget, self.used, self.required = budget, used, required
        self.resets_at = resets_at


class Paced(CreditsError):
    """Little is left, and the last submit was a moment ago; nothing was held."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"credits are low: the next submit is taken in {seconds:.1f} s")
        self.seconds = seconds


class NotTracked(CreditsError):
    """The credits of this upstream account are not tracked."""

    def __init__(self, owner_id: int) -> None:
        super().__init__(f"the credits of upstream account {owner_id} are not tracked")


class NotOwed(CreditsError):
    """More would be paid than the tenant owes; nothing was booked."""

    def __init__(self, tenant_id: int, amount: int, owed: int) -> None:
        super().__init__(f"tenant {tenant_id} owes {owed} micro-credits, less than {amount}")


class LedgerConflict(CreditsError):
    """The same key was booked before with other content; nothing was changed."""


class NothingCharged(CreditsError):
    """The run has no charge that could be refunded."""

    def __init__(self, job_id: UUID, run: int) -> None:
        super().__init__(f"job {job_id} run {run} was charged nothing")


class RefundExceedsCharge(CreditsError):
    """All refunds of a run together would be more than it was charged; nothing was booked."""

    def __init__(self, job_id: UUID, run: int, amount: int) -> None:
        super().__init__(f"{amount} micro-credits are more than is left of the charge for job {job_id} run {run}")


class FloorInUse(CreditsError):
    """More is used and held on credit than the new floor would allow; it stays as it was."""

    def __init__(self, tenant_id: int, floor: int) -> None:
        super().__init__(f"tenant {tenant_id} uses more credit than a floor of {floor} micro-credits allows")


class NewerAllowance(CreditsError):
    """The tenant was given another allowance since the caller looked; nothing was added."""

    def __init__(self, tenant_id: int) -> None:
        super().__init__(f"tenant {tenant_id} was given another allowance in the meantime")


class NoWallet(CreditsError):
    """The tenant has no wallet account yet."""

    def __init__(self, tenant_id: int) -> None:
        super().__init__(f"tenant {tenant_id} has no wallet")
        self.tenant_id = tenant_id


class PriceError(CreditsError, ValueError):
    """A value that cannot be a price; the message says why."""
