"""What an operator may do with allowances: add one to a tenant, stop it, start it again."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from broker_project.control.money import MoneyOperation
from broker_project.control.money_forms import AllowanceTerms, micro
from broker_project.control.words import several
from credits import allowances
from credits.models import Allowance
from credits.pricing import short_text
from statemachine.operations import Effect, Refused
from tenants.models import Tenant

DAY_SECONDS = 86_400
NOT_BILLED = "it does not pay by credits"


class AddAllowance(MoneyOperation):
    """Credits that come again, for a tenant; one more per page."""

    name, title, icon, form = "add-allowance", "Add an allowance", "event_repeat", AllowanceTerms
    permission = "credits.add_allowance"
    says = "The credits are granted within a minute for the period that runs, then at the begin of each (UTC)."

    def concerns(self, row: Tenant) -> bool:
        return row.billing == Tenant.Billing.CREDITS

    def mark(self, row: Tenant) -> str:
        return str(allowances.newest_of(row.pk))

    def effects(self, rows: Sequence[Tenant], data: Mapping[str, Any]) -> list[Effect]:
        then = f"one more: {_terms(data)}"
        return [
            Effect(tenant, several(_running(tenant), "allowance"), then, "" if self.concerns(tenant) else NOT_BILLED)
            for tenant in rows
        ]

    def also_at(self, row: Tenant, data: Mapping[str, Any]) -> list[Any]:
        """The wallet is still locked, so the newest is the one that was just added."""
        return [*super().also_at(row, data), Allowance.objects.get(pk=allowances.newest_of(row.pk))]

    def book(self, row: Tenant, data: Mapping[str, Any]) -> str:
        if not self.concerns(row):
            raise Refused(NOT_BILLED)
        made = allowances.add(
            row.pk,
            micro(data),
            data["every"],
            category=data["category"],
            priority=data["priority"],
            lifetime_seconds=_lifetime_seconds(data),
            after=int(data["mark"]),
        )
        return f"allowance {made.pk} added, {_terms(data)}"


class _Switch(MoneyOperation):
    permission = "credits.change_allowance"
    enables: ClassVar[bool]
    then: ClassVar[str]

    def concerns(self, row: Allowance) -> bool:
        return row.enabled != self.enables

    def effects(self, rows: Sequence[Allowance], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(row) for row in rows]

    def book(self, row: Allowance, data: Mapping[str, Any]) -> str:
        if not allowances.enable(row.pk, self.enables):
            raise Refused(self._so_already())
        return self.then

    def _effect(self, row: Allowance) -> Effect:
        granted = "granted for this period" if allowances.is_granted(row) else "not granted for this period yet"
        now = f"{row.tenant}: {'running' if row.enabled else 'stopped'}, {granted}"
        return Effect(row, now, self.then, "" if self.concerns(row) else self._so_already())

    def _so_already(self) -> str:
        return f"it is {'running' if self.enables else 'stopped'} already"


class StopAllowance(_Switch):
    """Nothing more is granted; what was granted stays."""

    name, title, icon = "stop", "Stop", "event_busy"
    says = "Nothing more is granted. What was granted stays the tenant's, until it expires."
    enables, then = False, "stopped, nothing more is granted"


class StartAllowance(_Switch):
    """Granted again, from the period that runs."""

    name, title, icon = "start", "Start again", "event_available"
    says = "Granted again, also for the period that runs if that was not granted. Those missed are not made up for."
    enables, then = True, "started, the period that runs is granted within a minute unless it was"


def _running(tenant: Tenant) -> int:
    return Allowance.objects.filter(tenant=tenant, enabled=True).count()


def _terms(data: Mapping[str, Any]) -> str:
    life = {"next": "until the next begins", "ever": "for ever"}.get(
        data["lifetime"], f"for {several(data['days'] or 0, 'day')} from its begin"
    )
    amount = f"{short_text(micro(data))} credits"
    return f"{amount} {Allowance.Every(data['every']).label}, {data['category']}, can be used {life}"


def _lifetime_seconds(data: Mapping[str, Any]) -> int | None:
    return {"next": 0, "ever": None}.get(data["lifetime"], (data["days"] or 0) * DAY_SECONDS)
