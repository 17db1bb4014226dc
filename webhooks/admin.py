"""The outbox in the admin, to look at."""

from django.contrib import admin

from statemachine.admin import ReadOnlyAdmin
from webhooks.models import Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["id", "type", "tenant_id", "job_id", "job_run", "job_version", "created_at"]
    list_filter = ["type"]
    search_fields = ["=job_id", "=tenant_id"]
    ordering = ["-id"]
