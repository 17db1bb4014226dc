"""What the judging of a pool goes by: signs of calls, what is remembered of pool and accounts, and what is to be done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from statemachine.sql import Row

Kind = Literal["busy", "transient", "refused", "answered", "well"]


@dataclass(frozen=True)
class Sign:
    """What one call, sent at `called_at`, said of its account. `rest_ms`: Retry-After, already bounded.

    `ended_at`: of a success, when it is not now. `at_once`: it was refused, not lost or timed out. `elsewhere`: accounts
    that refused this run of its job before, and `refusals` how often that was.
    """

    kind: Kind
    pool_id: int
    account_id: int
    called_at: datetime
    ended_at: datetime | None = None
    rest_ms: int = 0
    at_once: bool = True
    why: str = ""
    job_id: UUID | None = None
    tenant_id: int | None = None
    elsewhere: frozenset[int] = frozenset()
    refusals: int = 0


@dataclass(frozen=True)
class Questions:
    """What only the jobs know. `goes_on(pool, since, under_way)`: whether a call sent since then has succeeded or, where
    asked, is under way without being refused. `is_alone(pool, tenant)`: whether no other tenant ever had a job in it.
    """

    goes_on: Callable[[int, datetime, bool], bool]
    is_alone: Callable[[int, int], bool]


@dataclass
class Consequences:
    """What is to be done once the sessions were let go. `suspects`: jobs that are at fault; `told`: (account or '', pool,
    what happened) for the journal.
    """

    pools: list[int] = field(default_factory=list)  # ids of those that were locked
    asked: dict[int, Row] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    back: set[int] = field(default_factory=set)
    resting: list[int] = field(default_factory=list)  # ids of the sessions whose rests change
    suspects: set[UUID] = field(default_factory=set)
    told: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class Breaker:
    """What a pool and an account have in common; while it is open or half-open `opened_at` and `open_until` are set.

    `level`: how many rests in a row began.
    """

    name: str
    failed_at: datetime | None
    level: int
    opened_at: datetime | None
    open_until: datetime | None
    probe_id: int | None
    why: str

    def rest(self, now: datetime, until: datetime) -> None:
        """It begins to rest; who is to be the probe is found when the sessions were let go."""
        self.opened_at, self.open_until, self.probe_id = now, until, None
        self.level += 1

    def close(self) -> None:
        """Nobody rests for it any more; its level stays."""
        self.opened_at = self.open_until = self.probe_id = None


@dataclass
class OfPool(Breaker):
    """A row of `health.lock`."""

    pool_id: int
    failing_since: datetime | None
    succeeded_at: datetime | None
    failures: int  # so many of an account in a row open its breaker
    quarantine_ms: int
    longest_ms: int
    usable: list[int]
    now: datetime


@dataclass
class OfAccount(Breaker):
    """A row of `health.accounts`."""

    account_id: int
    failures: int  # in a row
    asked_until: datetime | None
    refused_job: UUID | None
    refused_tenant: int | None
    refusals: int  # by different jobs in a row
    is_offline: bool  # for that
