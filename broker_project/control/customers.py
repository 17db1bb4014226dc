"""What an operator may do for tenants: grant credits, issue and revoke API keys."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from broker_project.control.words import several
from credits import ledger
from credits.errors import LedgerConflict, NoWallet
from credits.pricing import MICRO, short_text
from statemachine.operations import Effect, Operation, Refused
from tenants import keys
from tenants.models import ApiKey, Tenant

MOST_CREDITS = ledger.MAX_AMOUNT // MICRO


class Amount(forms.Form):
    """How much, of which kind, and why."""

    amount = forms.DecimalField(
        min_value=Decimal("0.000001"),
        max_value=MOST_CREDITS,
        decimal_places=6,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Credits, up to six decimal places.",
    )
    kind = forms.ChoiceField(
        choices=[("grant_paid", "paid: a payment or a top-up"), ("grant_promo", "promotional: a gift")],
        widget=UnfoldAdminSelectWidget,
    )
    reason = forms.CharField(max_length=300, widget=UnfoldAdminTextInputWidget, help_text="E.g. the payment's number.")


class Grant(Operation):
    """Credits for a tenant, once per page: sending the page again books nothing."""

    name, title, icon, form = "grant", "Grant credits", "add_card", Amount
    permission = "credits.add_transfer"
    says = "The credits are booked at once and can be used at once. An entry is never taken back, only countered."

    def concerns(self, row: Tenant) -> bool:
        return row.billing == Tenant.Billing.CREDITS

    def effects(self, rows: Sequence[Tenant], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(tenant, _micro(data)) for tenant in rows]

    def perform(self, row: Tenant, data: Mapping[str, Any]) -> str:
        try:
            booked = ledger.grant(row.pk, _micro(data), f"admin:{data['token']}:{row.pk}", data["kind"])
        except (NoWallet, LedgerConflict) as why:
            raise Refused(str(why)) from why
        if not booked:
            raise Refused("this page was sent before: the credits are booked already")
        available = short_text(ledger.balances(row.pk).available)
        return f"{short_text(_micro(data))} credits granted, {available} are available"

    def _effect(self, tenant: Tenant, amount: int) -> Effect:
        try:
            balance = ledger.balances(tenant.pk)
        except NoWallet:
            return Effect(tenant, "no wallet", "", "it has no wallet")
        now = f"{short_text(balance.available)} available, {short_text(balance.held)} held"
        return Effect(tenant, now, f"{short_text(balance.available + amount)} available")


class KeyTerms(forms.Form):
    """What the key is called and may do."""

    name = forms.CharField(
        max_length=100, required=False, widget=UnfoldAdminTextInputWidget, help_text="For you to know it by."
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in keys.SCOPES],
        initial=list(keys.DEFAULT_SCOPES),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )


class IssueKey(Operation):
    """A new API key, shown once."""

    name, title, icon, form, shows_once = "issue-key", "Issue an API key", "key", KeyTerms, True
    permission = "tenants.add_apikey"
    says = "A new key for the tenant's programs. It is shown once; its other keys go on."

    def effects(self, rows: Sequence[Tenant], data: Mapping[str, Any]) -> list[Effect]:
        return [
            Effect(tenant, several(_live_keys(tenant).count(), "key"), f"one more, for {', '.join(data['scopes'])}")
            for tenant in rows
        ]

    def perform(self, row: Tenant, data: Mapping[str, Any]) -> str:
        try:
            return keys.issue(row, data["name"], data["scopes"], once=f"{data['token']}:{row.pk}")
        except keys.IssuedAlready as why:
            raise Refused("this page was sent before: its key was shown then") from why


class RevokeKey(Operation):
    """A key is refused from now on, for good."""

    name, title, icon = "revoke", "Revoke", "key_off"
    says = "Programs with this key are refused within a second, for good. Jobs they submitted go on."

    def concerns(self, row: ApiKey) -> bool:
        return row.revoked_at is None

    def effects(self, rows: Sequence[ApiKey], data: Mapping[str, Any]) -> list[Effect]:
        return [
            Effect(key, "valid", "revoked")
            if self.concerns(key)
            else Effect(key, "revoked", "", "it is revoked already")
            for key in rows
        ]

    def perform(self, row: ApiKey, data: Mapping[str, Any]) -> str:
        if not keys.revoke(row.pk):
            raise Refused("it is revoked already")
        return "revoked"


def _micro(data: Mapping[str, Any]) -> int:
    return int(data["amount"] * MICRO)


def _live_keys(tenant: Tenant) -> Any:
    return ApiKey.objects.filter(tenant=tenant, revoked_at=None)
