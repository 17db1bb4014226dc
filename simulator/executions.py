"""One execution: work the provider really took on, from its acceptance to its end, whoever still listens."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulator.asks import Ask
from simulator.faults import Fault
from simulator.times import now

if TYPE_CHECKING:
    from simulator.accounts import Account

ATTEMPT_SUFFIX = re.compile(r"\.a\d+$")


def job_reference(key: str) -> str:
    """The job a dispatch key speaks of: `job-7.a2` and `job-7.a3` are two attempts of `job-7`."""
    return ATTEMPT_SUFFIX.sub("", key)


@dataclass(slots=True, eq=False)
class Execution:
    """States: accepted (waits for a session) → running (`started_at`) → ended (`ended_at`, `outcome`, `billed`)."""

    id: str
    kind: str
    account: Account
    key: str
    reference: str
    digest: bytes
    ask: Ask
    fault: Fault
    duration_seconds: float
    repeat_of: str = ""
    accepted_at: float = field(default_factory=now)
    started_at: float | None = None
    ended_at: float | None = None
    answered_at: float | None = None
    slot: int = 0
    outcome: str = ""
    billed: float = 0.0
    repeats: int = 0
    polls: int = 0
    stale_polls: int = 0
    finds: int = 0
    cancel_requested: bool = False
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    callback_task: asyncio.Task[None] | None = None

    async def finished(self) -> None:
        """Returns when the execution has ended. A future per listener: one that leaves harms none."""
        if self.ended_at is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter

    @property
    def status(self) -> str:
        if self.ended_at is not None:
            return self.fault.status_word or self.outcome
        return "THROTTLED" if self.started_at is None else "running"

    @property
    def progress(self) -> float:
        """0 to 1."""
        if self.started_at is None:
            return 0.0
        if self.ended_at is not None:
            return 1.0
        return min(0.99, round((now() - self.started_at) / max(self.duration_seconds, 0.001), 2))

    @property
    def carried_out(self) -> bool:
        """Whether this counts as an effect: anything but ended, without success, and unbilled."""
        return self.outcome not in ("failed", "cancelled") or self.billed > 0

    @property
    def handed_over_at(self) -> float | None:
        """When the caller could know of the end: the answer's way into the socket, else the end itself."""
        return self.answered_at if self.answered_at is not None else self.ended_at

    def line(self) -> dict[str, Any]:
        """As the book shows it; times in seconds since the epoch."""
        return {
            "what": "execution",
            "id": self.id,
            "kind": self.kind,
            "account": self.account.name,
            "slot": self.slot,
            "key": self.key,
            "reference": self.reference,
            "accepted": self.accepted_at,
            "start": self.started_at,
            "end": self.ended_at,
            "answered": self.answered_at,
            "outcome": self.outcome or self.status,
            "units": self.ask.units,
            "billed": self.billed,
            "repeat_of": self.repeat_of or None,
            "repeats": self.repeats,
            "cancel_requested": self.cancel_requested,
        }
