"""The ledger in the admin, in credits: to look at, never to edit. Money moves by `ledger.py` alone."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from credits.models import Account, Allowance, Balance, Hold, Lot, Transfer
from credits.pricing import short_text
from statemachine.admin import ReadOnlyAdmin, states_filter, words_of
from tenants.models import Tenant


def amount(field: str, title: str = "") -> Any:
    """A column that shows `field` (micro-credits) in credits."""

    @admin.display(description=title or field.replace("_", " "), ordering=field)
    def show(row: Any) -> str:
        value = getattr(row, field)
        return "–" if value is None else short_text(value)

    return show


def owner(account: Account) -> str:
    """Whose account it is."""
    if account.owner_id is None:
        return account.kind
    return str(Tenant.objects.filter(pk=account.owner_id).first() or account.owner_id)


class InCredits(ReadOnlyAdmin):
    """Its page shows amounts in credits too, not in the micro-credits of the row."""

    amounts: ClassVar[Sequence[str]] = ("amount",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields: Sequence[Any] = super().get_fields(request, obj)
        return [amount(name) if name in self.amounts else name for name in fields]


class OfTenant(InCredits):
    """Found by the tenant's name; `account_path` leads from a row to its account."""

    account_path = "account__"
    search_fields = ["pk"]
    search_help_text = "The tenant's name"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        del request
        for word in words_of(search_term):
            tenants = Tenant.objects.filter(name__icontains=word).values_list("pk", flat=True)
            queryset = queryset.filter(**{f"{self.account_path}owner_id__in": list(tenants[:1000])})
        return queryset, False


@admin.register(Account)
class AccountAdmin(OfTenant):
    account_path = ""
    list_display = ["id", "ledger", "kind", owner]
    list_filter = [states_filter("kind", Account.Kind.values)]
    ordering = ["id"]


@admin.register(Balance)
class BalanceAdmin(OfTenant):
    amounts = ("posted", "held", "credit_limit", "hard_floor")
    list_display = ["tenant", amount("posted"), amount("held"), amount("credit_limit"), amount("hard_floor")]
    list_select_related = ["account"]
    ordering = ["account"]

    def tenant(self, balance: Balance) -> str:
        return owner(balance.account)


@admin.register(Lot)
class LotAdmin(OfTenant):
    amounts = ("amount", "remaining", "reserved")
    list_display = ["id", "tenant", "category", "priority", amount("amount"), amount("remaining"), amount("reserved"),
                    "expires_at", "created_at"]  # fmt: skip
    list_select_related = ["account"]
    list_filter = ["category", "spent"]
    ordering = ["-id"]

    def tenant(self, lot: Lot) -> str:
        return owner(lot.account)


@admin.register(Allowance)
class AllowanceAdmin(InCredits):
    list_display = ["id", "tenant", amount("amount"), "every", "category", "priority", "lifetime_seconds", "enabled"]
    list_select_related = ["tenant"]
    list_filter = ["every", "enabled"]
    search_fields = ["tenant__name"]
    ordering = ["-id"]


@admin.register(Hold)
class HoldAdmin(InCredits):
    amounts = ("amount", "captured", "overrun")
    list_display = ["id", "tenant", "job_id", "run", "status", amount("amount"), amount("captured"), amount("overrun"),
                    "reason", "created_at"]  # fmt: skip
    list_select_related = ["account"]
    list_filter = [states_filter("status", Hold.Status.values)]
    search_fields = exact_search = ["job_id"]
    search_help_text = "Job id"
    ordering = ["-id"]

    def tenant(self, hold: Hold) -> str:
        return owner(hold.account)


@admin.register(Transfer)
class TransferAdmin(InCredits):
    list_display = ["id", "op_key", "code", "from_account", "to_account", amount("amount"), "created_at"]
    list_select_related = ["debit", "credit"]
    search_fields = exact_search = ["op_key", "hold_id"]
    search_help_text = "The entry's key, or the number of a hold"
    ordering = ["-id"]

    @admin.display(description="from")
    def from_account(self, transfer: Transfer) -> str:
        return owner(transfer.debit)

    @admin.display(description="to")
    def to_account(self, transfer: Transfer) -> str:
        return owner(transfer.credit)
