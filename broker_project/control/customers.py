"""What an operator may do for tenants' programs: issue and revoke API keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from broker_project.control.words import several
from statemachine.operations import Effect, Operation, Refused
from tenants import keys
from tenants.models import ApiKey, Tenant


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


def _live_keys(tenant: Tenant) -> Any:
    return ApiKey.objects.filter(tenant=tenant, revoked_at=None)
