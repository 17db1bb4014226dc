"""Files in the admin, to look at: what is kept of whom, and until when. Their bytes are the tenants'."""

from django.contrib import admin

from files.models import File, Usage
from statemachine.admin import ReadOnlyAdmin, states_filter


@admin.register(File)
class FileAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "kind", "name", "content_type", "size", "stored_at", "expires_at", "gone_at"]
    list_filter = [states_filter("kind", File.Kind.values)]
    list_select_related = ["tenant"]
    search_fields = exact_search = ["id"]
    search_help_text = "File id"
    ordering = ["-id"]


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "input_bytes", "result_bytes"]
    list_select_related = ["tenant"]
    search_fields = ["tenant__name"]
    ordering = ["tenant"]
