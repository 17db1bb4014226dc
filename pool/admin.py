"""Pools, accounts and sessions in the admin, to look at and to find. Sealed credentials are never shown."""

from collections import Counter
from datetime import datetime

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from pool.judging import REFUSED
from pool.models import Pool, Resource, ResourceMove, UpstreamAccount
from pool.states import RESOURCE
from statemachine.admin import ReadOnlyAdmin, in_few_words, states_filter

MOST_OF_REASON = 80  # characters


@admin.register(Pool)
class PoolAdmin(ReadOnlyAdmin):
    list_display = ["name", "order", "window", "cooldown_ms", "accepting", "closed", "created_at"]
    list_filter = [states_filter("order", Pool.Order.values), "accepting"]
    search_fields = ["name"]
    readonly_fields = ["closed_until"]
    main_fields = ["name", "order", "window", "cooldown_ms", "accepting", "closed_until"]
    ordering = ["name"]

    @admin.display(description="closed until")
    def closed(self, pool: Pool) -> datetime | None:
        """In few words, for the list."""
        return pool.quarantined_until

    @admin.display(description="closed since a restore")
    def closed_until(self, pool: Pool) -> str:
        """Until when no session of it is given to a job, and why."""
        if pool.quarantined_until is None:
            return "no"
        return f"until {pool.quarantined_until:%Y-%m-%d %H:%M:%S} UTC: {pool.quarantine_note}"


@admin.register(UpstreamAccount)
class UpstreamAccountAdmin(ReadOnlyAdmin):
    list_display = ["name", "pool", "sessions", "standing", "base_url"]
    list_select_related = ["pool"]
    list_filter = ["pool"]
    search_fields = ["name", "pool__name"]
    readonly_fields = ["standing"]
    exclude = ["sealed_credential"]
    main_fields = ["pool", "name", "sessions", "standing", "base_url", "labels"]
    ordering = ["pool", "name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[UpstreamAccount]:
        return super().get_queryset(request).prefetch_related("resources")

    @admin.display(description="where they stand")
    def standing(self, account: UpstreamAccount) -> str:
        """How many of its sessions are in which state, and why; those that take no job are told apart."""
        states = Counter(_stands(session) for session in account.resources.all())
        return "; ".join(f"{number} {state}" for state, number in sorted(states.items()))


def _stands(session: Resource) -> str:
    """The reason is cut where its explanation begins: the whole is told at the session and the account."""
    draining = "" if session.accepting or session.state == "offline" else ", draining"
    if session.refused:
        code = session.note.removeprefix(REFUSED).partition(": ")[0]
        return f"{session.state}{draining}: refused by the upstream{f' ({code})' if code else ''}"
    out = session.state in ("offline", "cooldown")
    why = (out and session.reason) or (session.note if out or draining else "")
    return f"{session.state}{draining}{f': {in_few_words(why, MOST_OF_REASON)}' if why else ''}"


@admin.register(Resource)
class ResourceAdmin(ReadOnlyAdmin):
    list_display = ["id", "account", "number", "state", "accepting", "job_id", "available_at", "reason", "note"]
    list_select_related = ["account__pool"]
    list_filter = [states_filter("state", RESOURCE.states), "accepting", "pool"]
    search_fields = ["account__name", "=job_id", "=state"]
    search_help_text = "Account, job id or state"
    main_fields = [
        "account",
        "number",
        "state",
        "accepting",
        "job_id",
        "available_at",
        "reason",
        "note",
        "disabled",
        "rest_until",
    ]
    ordering = ["id"]


@admin.register(ResourceMove)
class ResourceMoveAdmin(ReadOnlyAdmin):
    list_display = ["id", "subject_id", "from_state", "to_state", "cause", "actor", "at"]
    list_filter = [states_filter("to_state", RESOURCE.states)]
    search_fields = exact_search = ["subject_id"]
    search_help_text = "Number of the session"
    ordering = ["-id"]
