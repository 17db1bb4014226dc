"""The outbox in the admin, to look at."""

from django.contrib import admin

from statemachine.admin import ReadOnlyAdmin
from webhooks.models import Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["id", "type", "tenant_id", "job_id", "job_run", "job_version", "created_at"]
    search_fields = exact_search = ["job_id"]
    search_help_text = "Job id"
    ordering = ["-id"]
