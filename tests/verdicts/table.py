"""The table: every fault × mode × means of finding out, with what must come of it. docs/verdicts.md is made from it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.verdicts.cells import MEANS, MODES, Fault, Verdict
from tests.verdicts.faults import accounts, answers, asking, cancels, refusals

FAULTS: list[Fault] = [*answers.FAULTS, *refusals.FAULTS, *asking.FAULTS, *cancels.FAULTS, *accounts.FAULTS]


@dataclass(frozen=True, eq=False)
class Cell:
    """One job: a fault, in a mode, with a means. Its `name` is also that of its pool and its type."""

    fault: Fault
    mode: str
    means: str
    expected: Verdict

    @property
    def name(self) -> str:
        return f"{self.fault.name} / {self.mode} / {self.means}"

    @property
    def accounts(self) -> tuple[str, str]:
        return f"{self.name} / 1", f"{self.name} / 2"


def cells() -> Iterator[Cell]:
    """All that can happen."""
    for fault in FAULTS:
        for mode in MODES:
            for means, expected in zip(MEANS, fault.of_mode(mode) or (), strict=False):
                if expected is not None:
                    yield Cell(fault, mode, means, expected)
