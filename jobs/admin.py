"""Job types, jobs, attempts and their history in the admin, to look at."""

from django.contrib import admin

from jobs.models import Attempt, Evidence, Job, JobMove, JobType, Line
from statemachine.admin import ReadOnlyAdmin


@admin.register(JobType)
class JobTypeAdmin(ReadOnlyAdmin):
    list_display = ["name", "pool", "price", "settle", "delivery", "max_runtime_ms", "accepting", "version"]
    list_select_related = ["pool"]
    list_filter = ["pool", "delivery", "accepting"]
    search_fields = ["name"]
    ordering = ["name"]


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "tenant",
        "type",
        "state",
        "run",
        "attempts",
        "turn",
        "due_at",
        "price",
        "charged",
        "created_at",
    ]
    list_select_related = ["tenant", "type"]
    list_filter = ["state", "type", "pool"]
    search_fields = ["=id", "=idempotency_key"]
    exclude = ["fingerprint"]
    ordering = ["-id"]


@admin.register(JobMove)
class JobMoveAdmin(ReadOnlyAdmin):
    list_display = ["id", "subject_id", "from_state", "to_state", "cause", "actor", "at"]
    list_filter = ["to_state"]
    search_fields = ["=subject_id"]
    ordering = ["-id"]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = [
        "dispatch_key",
        "job",
        "account",
        "phase",
        "verdict",
        "error_code",
        "holder",
        "opened_at",
        "ended_at",
    ]
    list_select_related = ["job", "account__pool"]
    list_filter = ["phase", "verdict"]
    search_fields = ["=dispatch_key", "=job__id"]
    ordering = ["-id"]


@admin.register(Evidence)
class EvidenceAdmin(ReadOnlyAdmin):
    list_display = ["id", "attempt", "kind", "fence", "at"]
    list_select_related = ["attempt"]
    list_filter = ["kind"]
    search_fields = ["=attempt__dispatch_key"]
    ordering = ["-id"]


@admin.register(Line)
class LineAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "finish_tag"]
    list_select_related = ["tenant", "pool"]
    list_filter = ["pool"]
    search_fields = ["tenant__name"]
    ordering = ["id"]
