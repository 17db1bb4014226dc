"""The ledger in the admin, in credits: to look at, never to edit. Money moves by `ledger.py` alone."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from credits import ledger
from credits.models import Account, Allowance, Balance, Ceiling, Hold, Lot, Reading, Transfer
from credits.owners import found_by, name_of
from credits.pricing import short_text
from statemachine.admin import ReadOnlyAdmin, states_filter, words_of

MOST_FOUND = 1_000  # owners that one word of a search finds


def amount(field: str, title: str = "") -> Any:
    """A column that shows `field` (micro-credits) in credits."""

    @admin.display(description=title or field.replace("_", " "), ordering=field)
    def show(row: Any) -> str:
        value = getattr(row, field)
        return "–" if value is None else short_text(value)

    return show


class InCredits(ReadOnlyAdmin):
    """Its page shows amounts in credits too, not in the micro-credits of the row."""

    amounts: ClassVar[Sequence[str]] = ("amount",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields: Sequence[Any] = super().get_fields(request, obj)
        return [amount(name) if name in self.amounts else name for name in fields]


class Owned(InCredits):
    """Found by the name of the tenant, or of the upstream account; `account_path` leads from a row to its account."""

    account_path = "account__"
    search_fields = ["pk"]
    search_help_text = "The name of the tenant, or of the upstream account"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        del request
        for word in words_of(search_term):
            path = self.account_path
            fitting = [
                Q(**{f"{path}kind": kind, f"{path}owner_id__in": ids})
                for kind, ids in found_by(word, MOST_FOUND).items()
            ]
            queryset = queryset.filter(reduce(or_, fitting))
        return queryset, False


@admin.register(Account)
class AccountAdmin(Owned):
    account_path = ""
    list_display = ["id", "ledger", "kind", "owner"]
    list_filter = [states_filter("kind", Account.Kind.values)]
    ordering = ["id"]

    def owner(self, account: Account) -> str:
        return name_of(account)


@admin.register(Balance)
class BalanceAdmin(Owned):
    amounts = ("posted", "held", "owed", "credit_limit", "hard_floor", "day_charged", "month_charged")
    list_display = ["whose", "kind", amount("posted"), amount("held"), amount("owed"), amount("credit_limit"),
                    "floor"]  # fmt: skip
    list_select_related = ["account"]
    list_filter = [states_filter("account__kind", [Account.Kind.WALLET, Account.Kind.UPSTREAM])]
    ordering = ["account"]

    def whose(self, balance: Balance) -> str:
        return name_of(balance.account)

    def kind(self, balance: Balance) -> str:
        return balance.account.kind

    def floor(self, balance: Balance) -> str:
        """Upstream accounts have one that nothing reaches: what the provider took, it took."""
        return "none" if balance.account.kind == Account.Kind.UPSTREAM else short_text(balance.hard_floor)


@admin.register(Lot)
class LotAdmin(Owned):
    amounts = ("amount", "remaining", "reserved")
    list_display = ["id", "tenant", "category", "priority", amount("amount"), amount("remaining"), amount("reserved"),
                    "expires_at", "created_at"]  # fmt: skip
    list_select_related = ["account"]
    list_filter = ["category", "spent"]
    ordering = ["-id"]

    def tenant(self, lot: Lot) -> str:
        return name_of(lot.account)


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
    list_display = ["id", "whose", "job_id", "run", "attempt", "status", amount("amount"), amount("captured"),
                    amount("overrun"), "reason", "created_at"]  # fmt: skip
    list_select_related = ["account"]
    list_filter = [states_filter("status", Hold.Status.values)]
    search_fields = exact_search = ["job_id"]
    search_help_text = "Job id"
    ordering = ["-id"]

    def whose(self, hold: Hold) -> str:
        return name_of(hold.account)


@admin.register(Transfer)
class TransferAdmin(InCredits):
    list_display = ["id", "op_key", "code", "from_account", "to_account", amount("amount"), "created_at"]
    list_select_related = ["debit", "credit"]
    search_fields = exact_search = ["op_key", "hold_id"]
    search_help_text = "The entry's key, or the number of a hold"
    ordering = ["-id"]

    @admin.display(description="from")
    def from_account(self, transfer: Transfer) -> str:
        return name_of(transfer.debit)

    @admin.display(description="to")
    def to_account(self, transfer: Transfer) -> str:
        return name_of(transfer.credit)


@admin.register(Reading)
class ReadingAdmin(Owned):
    amounts = ("said", "posted", "held", "drift")
    list_display = ["at", "whose", amount("said"), amount("posted"), amount("held"), amount("drift"), "booked"]
    list_select_related = ["account"]
    list_filter = ["booked"]
    ordering = ["-id"]

    def whose(self, reading: Reading) -> str:
        return name_of(reading.account)


@admin.register(Ceiling)
class CeilingAdmin(InCredits):
    amounts = ("day_budget", "month_budget")
    list_display = ["__str__", amount("day_budget"), "used_in_day", amount("month_budget"), "used_in_month"]
    exclude = ["id"]
    readonly_fields = ["used_in_day", "used_in_month"]

    @admin.display(description="charged and held in this day (UTC)")
    def used_in_day(self, _ceiling: Ceiling) -> str:
        return short_text(ledger.budgets(None).used_in_day)

    @admin.display(description="charged and held in this month (UTC)")
    def used_in_month(self, _ceiling: Ceiling) -> str:
        return short_text(ledger.budgets(None).used_in_month)
