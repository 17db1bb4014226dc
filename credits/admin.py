"""The ledger in the admin: to look at, never to edit. Money moves by `ledger.py` alone."""

from django.contrib import admin

from credits.models import Account, Balance, Hold, Transfer
from statemachine.admin import ReadOnlyAdmin


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    list_display = ["id", "ledger", "kind", "owner_id"]
    list_filter = ["kind"]
    search_fields = ["=owner_id"]
    ordering = ["id"]


@admin.register(Balance)
class BalanceAdmin(ReadOnlyAdmin):
    list_display = ["account", "posted", "held", "credit_limit", "hard_floor"]
    list_select_related = ["account"]
    search_fields = ["=account__owner_id"]
    ordering = ["account"]


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    list_display = ["id", "account", "job_id", "run", "status", "amount", "captured", "overrun", "reason", "created_at"]
    list_select_related = ["account"]
    list_filter = ["status"]
    search_fields = ["=job_id"]
    ordering = ["-id"]


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    list_display = ["id", "op_key", "code", "debit", "credit", "amount", "created_at"]
    list_select_related = ["debit", "credit"]
    list_filter = ["code"]
    search_fields = ["=op_key"]
    ordering = ["-id"]
