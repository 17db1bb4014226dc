"""What one cell of the table says, and how the rows write it. No code of the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MODES: Final = ("sync", "poll", "callback")
MEANS: Final = ("idempotent", "find", "neither")
UNITS: Final = 4  # what a job uses at the upstream, and costs when it says so
PRICE: Final = 10  # what is held

ANSWER, REFUSAL, POLL, FIND, CANCEL, MAX_RUNTIME = "answer", "refusal", "poll", "find", "cancel", "max_runtime"


@dataclass(frozen=True)
class Verdict:
    """How the job ends and what it costs (credits), how often it ran at the upstream, and what freed its first session.

    `effects` of the `ran` executions were carried out or billed. `freed` is what ended the first attempt, the one that
    met the fault: "cancel|poll" where two may come first.
    """

    state: str
    charge: int
    ran: int
    effects: int
    freed: str
    code: str = ""


Row = tuple[Verdict | None, Verdict | None, Verdict | None]  # by MEANS; None: cannot happen


@dataclass(frozen=True, eq=False)
class Fault:
    """A row: what goes wrong, how it is brought about, and what must come of it in each mode.

    `sim` is what the payload asks of the simulator, `latency_ms` how long the work takes, per mode or in all. `first`
    is set up at the first of the two accounts before the job comes: `fault` and `account` as the simulator's control
    takes them, `unreachable`. `then` happens `then_seconds` after the upstream took the work.
    """

    name: str
    does: str
    sync: Row | None
    poll: Row | None
    callback: Row | None
    sim: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: int | Mapping[str, int] = 300
    first: Mapping[str, Any] = field(default_factory=dict)
    then: str = ""  # cancel, ban, flood, leave (strangers), refuse (the next repeat)
    then_seconds: float = 0.0
    flooded_seconds: float = 0.0  # before the job comes, nobody gets anything for so long
    repeats: bool = False  # the delivery policy is at_least_once

    def of_mode(self, mode: str) -> Row | None:
        """The expectations by MEANS; None: it cannot happen in this mode."""
        row: Row | None = getattr(self, mode)
        return row

    @property
    def group(self) -> str:
        """The upstream it is played by: a flood meets everybody there, and what happens meanwhile must be seen early."""
        return self.name if self.flooded_seconds or self.then == "flood" else "meanwhile" if self.then else ""


def done(freed: str, charge: int = UNITS, ran: int = 1, effects: int | None = None) -> Verdict:
    return Verdict("completed", charge, ran, ran if effects is None else effects, freed)


def failed(code: str, freed: str, ran: int = 1, effects: int = 0) -> Verdict:
    return Verdict("failed", 0, ran, effects, freed, code)


def refused(code: str = "failed") -> Verdict:
    """Nothing was executed, and it is not tried again, or not any more."""
    return failed(code, REFUSAL, ran=0)


def lost(freed: str = MAX_RUNTIME, ran: int = 1, effects: int | None = None) -> Verdict:
    """Nobody can find out what came of it."""
    return failed("outcome_unknown", freed, ran, ran if effects is None else effects)


def cancelled(freed: str, ran: int = 1, effects: int = 0) -> Verdict:
    return Verdict("cancelled", 0, ran, effects, freed, "cancelled")


def each(verdict: Verdict) -> Row:
    """The same by all means."""
    return verdict, verdict, verdict
