"""Files in the admin, to look at: what is kept of whom, and until when. Their bytes are the tenants'."""

from django.contrib import admin
from django.template.defaultfilters import filesizeformat

from files.models import File, Usage
from statemachine.admin import ReadOnlyAdmin, states_filter


@admin.register(File)
class FileAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "tenant",
        "kind",
        "name",
        "content_type",
        "size_in_words",
        "stored_at",
        "expires_at",
        "gone_at",
    ]
    list_filter = [states_filter("kind", File.Kind.values)]
    list_select_related = ["tenant"]
    search_fields = exact_search = ["id"]
    search_help_text = "File id"
    exclude = ["size"]
    readonly_fields = ["size_in_words"]
    ordering = ["-id"]

    @admin.display(description="size", ordering="size")
    def size_in_words(self, file: File) -> str:
        return filesizeformat(file.size)


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "inputs", "results"]
    exclude = ["input_bytes", "result_bytes"]
    readonly_fields = ["inputs", "results"]
    list_select_related = ["tenant"]
    search_fields = ["tenant__name"]
    ordering = ["tenant"]

    @admin.display(ordering="input_bytes")
    def inputs(self, usage: Usage) -> str:
        return filesizeformat(usage.input_bytes)

    @admin.display(ordering="result_bytes")
    def results(self, usage: Usage) -> str:
        return filesizeformat(usage.result_bytes)
