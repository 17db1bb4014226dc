"""What applying would do: the rows that are stored, compared with the rows that the file asks for."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import models

from broker_project.config.rows import Row, Wanted
from broker_project.config.wording import credits_text, differences
from jobs.models import JobType
from pool.models import Pool, UpstreamAccount
from pool.secrets import SecretUnreadable
from tenants.models import Tenant

MOST_NAMED: Final = 5  # rows of a kind that are not in the file; of more, their number is told
SESSIONS_OFF: Final = {"sessions": 0}
CLOSED: Final = {"accepting": False}
AccountName = tuple[str, str]  # pool, account


@dataclass
class Change:
    """One row. `action`: create, change, drain, keep, or leave (not in the file). `columns` are what is written."""

    kind: str
    name: Any  # of an account: (pool, account)
    action: str
    stored: Any = None
    columns: Row = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.kind} {'/'.join(self.name) if isinstance(self.name, tuple) else self.name}"


@dataclass
class Plan:
    changes: list[Change] = field(default_factory=list)
    wallets: list[str] = field(default_factory=list)  # tenants that have none yet
    grants: dict[str, int] = field(default_factory=dict)
    top_ups: dict[AccountName, int] = field(default_factory=dict)  # of upstream accounts, not booked yet
    tracked: list[AccountName] = field(default_factory=list)  # accounts that pay by attempt from now on
    untracked: list[AccountName] = field(default_factory=list)  # and those that do so no more
    ceiling: Row | None = None  # what is written, where it differs from what is stored
    notes: list[str] = field(default_factory=list)

    def of(self, kind: str, *actions: str) -> list[Change]:
        return [change for change in self.changes if change.kind == kind and change.action in actions]

    @property
    def is_empty(self) -> bool:
        writes = any(change.action in ("create", "change", "drain") for change in self.changes)
        accounts = self.top_ups or self.tracked or self.untracked
        return not (writes or self.wallets or self.grants or accounts or self.ceiling is not None)

    def lines(self) -> Iterator[str]:
        """For people, in the order of the file; secrets are never among them."""
        for change in self.changes:
            if change.action in ("create", "change", "drain"):
                yield f"{change.action:<9}{change.title}"
                yield from (f"{'':<9}  {line}" for line in change.lines)
        if self.ceiling is not None:
            yield f"{'change':<9}budgets of all tenants: {_budgets_text(self.ceiling)}"
        for tenant, amount in self.grants.items():
            yield f"{'grant':<9}tenant {tenant}: {credits_text(amount)} credits, once"
        for name in self.tracked:
            began = f", beginning with {credits_text(self.top_ups[name])}" if name in self.top_ups else ""
            yield f"{'credits':<9}account {'/'.join(name)}: tracked from now on{began}"
        for name in self.untracked:
            yield f"{'credits':<9}account {'/'.join(name)}: not tracked any more; it can be given any job"
        yield from self._left_alone()
        yield from (f"{'':<9}{note}" for note in self.notes)
        if kept := Counter(change.kind for change in self.changes if change.action == "keep"):
            yield "unchanged " + ", ".join(f"{kind}: {count}" for kind, count in kept.items())
        if self.is_empty:
            yield "nothing to change"

    def _left_alone(self) -> Iterator[str]:
        """By name as long as they are few."""
        kinds: dict[str, list[str]] = {}
        for change in self.changes:
            if change.action == "leave":
                kinds.setdefault(change.kind, []).append(change.title)
        for kind, titles in kinds.items():
            if len(titles) <= MOST_NAMED:
                yield from (f"{'':<9}{title} is not in the file, left alone (--prune drains it)" for title in titles)
            else:
                yield f"{'':<9}{len(titles)} of kind {kind} are not in the file, left alone (--prune drains them)"


def make_plan(wanted: Wanted, prune: bool) -> Plan:
    """Reads what is stored; the caller holds the lock that keeps another apply away."""
    plan = Plan()
    pools = {pool.name: pool for pool in Pool.objects.order_by("name")}
    accounts = UpstreamAccount.objects.select_related("pool").order_by("pool__name", "name")
    types = {job_type.name: job_type for job_type in JobType.objects.select_related("pool").order_by("name")}
    tenants = {tenant.name: tenant for tenant in Tenant.objects.order_by("name")}
    plan.changes += _changes("pool", wanted.pools, pools, CLOSED if prune else None)
    stored = {(account.pool.name, account.name): account for account in accounts}
    plan.changes += _changes("account", wanted.accounts, stored, SESSIONS_OFF if prune else None)
    _compare_credentials(plan, wanted.credentials)
    plan.changes += _changes("job type", wanted.job_types, types, CLOSED if prune else None)
    plan.changes += _changes("tenant", wanted.tenants, tenants, CLOSED if prune else None)
    return plan


def _changes(
    kind: str, wanted: Mapping[Any, Row], stored: Mapping[Any, models.Model], drained: Row | None
) -> Iterator[Change]:
    for name, row in wanted.items():
        if name not in stored:
            yield Change(kind, name, "create", columns=dict(row))
        else:
            yield _compared(kind, name, stored[name], row)
    off = SESSIONS_OFF if kind == "account" else CLOSED
    for name in [name for name in stored if name not in wanted]:
        if all(_value(stored[name], column) == value for column, value in off.items()):
            yield Change(kind, name, "keep", stored[name])
        elif drained is None:
            yield Change(kind, name, "leave", stored[name])
        else:
            yield Change(kind, name, "drain", stored[name], dict(drained), ["what runs ends, nothing begins"])


def _compared(kind: str, name: Any, stored: models.Model, row: Row) -> Change:
    changed = {column: value for column, value in row.items() if _value(stored, column) != value}
    if not changed:
        return Change(kind, name, "keep", stored)
    columns = {column: (_value(stored, column), value) for column, value in changed.items() if column != "declared"}
    lines = differences(_value(stored, "declared"), row["declared"], columns)
    return Change(kind, name, "change", stored, changed, lines)


def _compare_credentials(plan: Plan, credentials: Mapping[tuple[str, str], str]) -> None:
    for change in plan.of("account", "create", "change", "keep"):
        secret = credentials.get(change.name)
        if secret is None or (change.stored and _credential(change.stored) == secret):
            continue
        change.columns["credential"] = secret
        if change.action != "create":
            change.action = "change"
            change.lines.append("credential: changed")


def _credential(account: UpstreamAccount) -> str | None:
    try:
        return account.credential
    except SecretUnreadable:
        return None  # sealed with a key that is gone: to be sealed anew


def _budgets_text(budgets: Row) -> str:
    said = [
        f"{name.removesuffix('_budget')} {credits_text(value)}" for name, value in budgets.items() if value is not None
    ]
    return ", ".join(said) or "none"


def _value(stored: models.Model, column: str) -> Any:
    return stored.pool.name if column == "pool" else getattr(stored, column)  # type: ignore[attr-defined]
