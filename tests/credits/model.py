"""A wallet in plain Python: what the ledger must do, said a second time, without SQL, locks or sets.

Time is counted in hours; a lot with no hours left is past its time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

Run = tuple[UUID, int]


@dataclass
class Lot:
    source: str
    amount: int
    category: str = "paid"
    priority: int = 50
    hours: int | None = None
    remaining: int = field(init=False)
    reserved: int = 0

    def __post_init__(self) -> None:
        self.remaining = self.amount

    @property
    def free(self) -> int:
        return self.remaining - self.reserved

    @property
    def is_due(self) -> bool:
        return self.hours is not None and self.hours <= 0


@dataclass
class Hold:
    amount: int
    parts: list[tuple[Lot, int]]


class Short(Exception):
    """The wallet cannot carry it."""


class OverBudget(Exception):
    """It would pass the budget of the day."""


class Wallet:
    def __init__(self, limit: int) -> None:
        self.limit, self.floor = limit, -limit
        self.budget: int | None = None  # of the day
        self.granted = self.charged = self.expired = self.refunded = self.owed = 0
        self.charged_beyond = 0
        self.lots: list[Lot] = []
        self.holds: dict[Run, Hold] = {}
        self.left_to_refund: dict[Run, int] = {}

    @property
    def posted(self) -> int:
        return self.granted - self.charged - self.expired + self.refunded

    @property
    def held(self) -> int:
        return sum(hold.amount for hold in self.holds.values())

    @property
    def line(self) -> int:
        return min(self.limit, -self.floor)

    @property
    def available(self) -> int:
        return self.posted - self.held - self.owed + self.line - self.due

    @property
    def due(self) -> int:
        return sum(lot.free for lot in self.lots if lot.is_due)

    @property
    def used(self) -> int:
        """Of the budget."""
        return self.charged + self.charged_beyond + self.held

    @property
    def debt(self) -> int:
        return sum(lot.remaining for lot in self.lots) - self.posted

    def in_order(self, lots: Iterable[Lot]) -> list[Lot]:
        """As they are used: by priority, expiry (never comes last), gifts first, age."""

        def key(lot: Lot) -> tuple[int, float, bool, int]:
            hours = float("inf") if lot.hours is None else lot.hours
            return lot.priority, hours, lot.category == "paid", self.lots.index(lot)

        return sorted(lots, key=key)

    def grant(self, lot: Lot) -> None:
        self.lots.append(lot)
        self.granted += lot.amount
        self.cover()

    def hold(self, requests: dict[Run, int]) -> None:
        if needed := sum(requests.values()):
            if self.available + self.due < needed:
                raise Short
            if self.budget is not None and self.used + needed > self.budget:
                raise OverBudget
            if self.available < needed:
                raise Short
            self.expire()
        for run, amount in sorted(requests.items()):
            self.holds[run] = Hold(amount, self._reserve(amount))

    def _reserve(self, amount: int) -> list[tuple[Lot, int]]:
        parts = []
        for lot in self.in_order(lot for lot in self.lots if lot.free):
            if taken := min(amount, lot.free):
                lot.reserved += taken
                parts.append((lot, taken))
                amount -= taken
        return parts

    def close(self, runs: Iterable[Run], actuals: dict[Run, int] | None, policy: str = "absorb") -> None:
        """Settles, or releases when there are no actual amounts."""
        for run in runs:
            hold = self.holds.pop(run)
            captured = min(hold.amount, actuals[run]) if actuals is not None else 0
            if actuals is not None and policy == "debt":
                self.owed += actuals[run] - captured
                self.charged_beyond += actuals[run] - captured
            self.charged += captured
            if captured:
                self.left_to_refund[run] = captured
            parts = {lot.source: part for lot, part in hold.parts}
            for lot in self.in_order(lot for lot, _ in hold.parts):
                used = min(parts[lot.source], captured)
                lot.reserved -= parts[lot.source]
                lot.remaining -= used
                captured -= used
        self.cover()

    def refund(self, run: Run, lot: Lot) -> bool:
        """False: more than is left of the charge."""
        if lot.amount > self.left_to_refund[run]:
            return False
        self.left_to_refund[run] -= lot.amount
        self.refunded += lot.amount
        self.lots.append(lot)
        self.cover()
        return True

    def expire(self) -> int:
        due = [lot for lot in self.lots if lot.is_due]
        amount = sum(lot.free for lot in due)
        for lot in due:
            lot.remaining = lot.reserved
        self.expired += amount
        return amount

    def cover(self) -> None:
        if self.debt > 0:
            self.expire()
            for lot in self.in_order(lot for lot in self.lots if lot.free):
                lot.remaining -= min(lot.free, self.debt)

    def set_floor(self, floor: int) -> bool:
        """False: more is used and held on credit."""
        if self.posted - self.held - sum(lot.free for lot in self.lots) < floor:
            return False
        self.floor = floor
        return True
