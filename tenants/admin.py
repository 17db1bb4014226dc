"""Tenants and their keys in the admin, to look at. A key's hash is never shown."""

from django.contrib import admin

from statemachine.admin import ReadOnlyAdmin, states_filter
from tenants.models import ApiKey, Tenant


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    list_display = ["name", "share", "billing", "max_running", "max_priority", "accepting", "created_at"]
    list_filter = [states_filter("billing", Tenant.Billing.values), "accepting"]
    search_fields = ["name"]
    main_fields = ["name", "billing", "share", "max_running", "accepting"]
    ordering = ["name"]


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ["public_id", "tenant", "name", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["tenant"]
    search_fields = ["=public_id", "tenant__name", "name"]
    exclude = ["secret_hash"]
    ordering = ["-id"]
