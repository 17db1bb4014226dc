"""Job types, jobs, their attempts and history in the admin: to look at and to find."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from credits.pricing import short_text
from jobs import outlook
from jobs.admin_filters import EndedBefore, EndedSince, OfCode, OfTenant, Only, said_of_dead_letters
from jobs.affording import in_words
from jobs.models import Attempt, Evidence, Job, JobMove, JobType, LateCompletion, Line
from jobs.queries import affording
from jobs.queries.restoring import quarantined
from jobs.queries.under_way import under_way, whole_errors
from jobs.states import ATTEMPT_PHASES, JOB, VERDICTS
from jobs.verdicts import UPSTREAM_REFUSED
from statemachine.admin import ReadOnlyAdmin, in_few_words, states_filter, words_of
from statemachine.sql import Row
from tenants.models import Tenant

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.views import ChangeList

MOST_SHOWN = 4_000  # characters of a payload or a result
MOST_IN_LIST = 90  # characters of a reason


@admin.register(JobType)
class JobTypeAdmin(ReadOnlyAdmin):
    list_display = ["name", "pool", "price", "settle", "delivery", "max_runtime_ms", "accepting", "version"]
    list_select_related = ["pool"]
    list_filter = ["pool", "accepting"]
    search_fields = ["name"]
    main_fields = ["name", "pool", "price", "settle", "overrun", "delivery", "max_runtime_ms", "accepting", "version"]
    ordering = ["name"]


class JobList(ChangeList):
    """Each job with why it stands so, `why`: asked for at once for all of a page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        jobs: list[Any] = list(self.result_list)
        words = _why(jobs)
        for job in jobs:
            job.why = words[job.pk]
        self.result_list = jobs


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "type", "state", "why_in_list", "run", "attempts", "price_in_credits",
                    "charged_credits", "created_at"]  # fmt: skip
    list_select_related = ["tenant", "type"]
    list_filter = [Only, states_filter("state", JOB.states), "type", "pool", OfTenant, OfCode, EndedSince, EndedBefore]
    list_filter_submit = True
    list_before_template = "berth/dead_letters.html"
    search_fields = ["id"]
    search_help_text = (
        "Job id, tenant, type, state, dispatch key, idempotency key or the upstream's reference; all words must fit."
    )
    exclude = ["fingerprint", "price", "charged", "payload", "result", "error"]
    readonly_fields = ["why_words", "price_in_credits", "charged_credits", "payload_begins", "result_begins"]
    main_fields = ["tenant", "type", "state", "run", "why_words", "price_in_credits", "charged_credits"]
    ordering = ["-id"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Where dead letters are looked at, those that are meant can be run again together."""
        offered = request.GET.get("only") == "dead_letters" and request.user.has_perm("jobs.change_job")
        said, why_not = said_of_dead_letters(request) if offered else ("", "")
        address = f"{reverse('admin:jobs_redrive_begin')}?{said}" if offered and not why_not else ""
        shown = {"redrive": address, "no_redrive": why_not}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002  Django's signature
        return JobList

    @admin.display(description="why")
    def why_in_list(self, job: Any) -> str:
        return in_few_words(job.why, MOST_IN_LIST)

    @admin.display(description="why")
    def why_words(self, job: Job) -> str:
        return _why([job])[job.pk] or "–"

    @admin.display(description="price", ordering="price")
    def price_in_credits(self, job: Job) -> str:
        return short_text(job.price)

    @admin.display(description="charged", ordering="charged")
    def charged_credits(self, job: Job) -> str:
        return short_text(job.charged)

    @admin.display(description="payload")
    def payload_begins(self, job: Job) -> str:
        return _begin(job.payload)

    @admin.display(description="result")
    def result_begins(self, job: Job) -> str:
        return "" if job.result is None else _begin(job.result)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """A list of fifty jobs must not read fifty results."""
        return super().get_queryset(request).defer("payload", "result", "metadata")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Each word by the one index that fits it: a search over all columns at once would read all jobs."""
        del request
        for word in words_of(search_term):
            queryset = queryset.filter(**next(_meanings(word)))
        return queryset, False


def _begin(value: Any) -> str:
    """As JSON; of a long one the beginning, since a page of megabytes helps nobody."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    more = f"… ({len(text):,} characters)" if len(text) > MOST_SHOWN else ""
    return format_html('<pre class="berth-pre">{}{}</pre>', text[:MOST_SHOWN], more)


def _why(jobs: Sequence[Job]) -> dict[UUID, str]:
    """By job, why it stands so: its error, what it waits for, or how far the upstream is with it. For operators."""
    flights = under_way([job.pk for job in jobs if job.state == "processing"])
    refused = whole_errors([job.pk for job in jobs if job.error and job.error["code"] == UPSTREAM_REFUSED])
    richest = cache(affording.richest)  # asked for once per pool
    closed = {row["id"]: row for row in quarantined()} if any(job.state == JOB.first for job in jobs) else {}
    return {
        job.pk: _error(refused.get(job.pk) or job.error)
        or (outlook.in_short(flights[job.pk]) if job.pk in flights else _waits(job, richest, closed))
        for job in jobs
    }


def _error(error: Mapping[str, Any] | None) -> str:
    return ": ".join(filter(None, (error["code"], error.get("message")))) if error else ""


def _waits(job: Job, richest: Callable[[int], int | None], closed: Mapping[int, Row]) -> str:
    """Of a job that its pool keeps waiting: until when; of one that no account can pay for: what it wants and what there is."""
    if job.state != JOB.first:
        return ""
    if pool := closed.get(job.pool_id):
        return f"its pool is closed since a restore, until {pool['quarantined_until']:%Y-%m-%d %H:%M:%S} UTC"
    if not job.unaffordable:
        return ""
    return f"waits for upstream credits: it costs {short_text(job.cost)}, {in_words(richest(job.pool_id))}"


def _meanings(word: str) -> Iterator[dict[str, Any]]:
    """What a word of a search may be; the first that exists counts."""
    with suppress(ValueError):
        if Job.objects.filter(pk=UUID(word)).exists():
            yield {"pk": UUID(word)}
    if word in JOB.states:
        yield {"state": word}
    if tenant := Tenant.objects.filter(name=word).first():
        yield {"tenant": tenant}
    if job_type := JobType.objects.filter(name=word).first():
        yield {"type": job_type}
    for attempts in (Attempt.objects.filter(reference=word), Attempt.objects.filter(dispatch_key=word)):
        if ids := list(attempts.values_list("job_id", flat=True)[:100]):
            yield {"pk__in": ids}
    # The index begins with the tenant: all are named, so that it is one probe for each and not a look at every job.
    yield {"tenant__in": list(Tenant.objects.values_list("pk", flat=True)), "idempotency_key": word}


@admin.register(JobMove)
class JobMoveAdmin(ReadOnlyAdmin):
    list_display = ["id", "subject_id", "from_state", "to_state", "cause", "actor", "at"]
    list_filter = [states_filter("to_state", JOB.states)]
    search_fields = exact_search = ["subject_id"]
    search_help_text = "Job id"
    ordering = ["-id"]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    exclude = ["result"]
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
    list_filter = [states_filter("phase", ATTEMPT_PHASES), states_filter("verdict", VERDICTS)]
    search_fields = exact_search = ["dispatch_key", "reference", "job_id"]
    search_help_text = "Dispatch key, the upstream's reference, or job id"
    main_fields = [
        "job",
        "resource",
        "number",
        "run",
        "phase",
        "verdict",
        "error_code",
        "error_message",
        "reference",
        "dispatch_key",
        "opened_at",
        "called_at",
        "ended_at",
    ]
    ordering = ["-id"]


@admin.register(Evidence)
class EvidenceAdmin(ReadOnlyAdmin):
    list_display = ["id", "attempt", "kind", "fence", "at"]
    list_select_related = ["attempt"]
    search_fields = exact_search = ["attempt_id"]
    search_help_text = "Number of the attempt"
    ordering = ["-id"]


@admin.register(LateCompletion)
class LateCompletionAdmin(ReadOnlyAdmin):
    list_display = ["id", "job", "run", "booked_credits", "why", "at", "decided_at"]
    search_fields = exact_search = ["job_id"]
    search_help_text = "Job id"
    ordering = ["-id"]

    @admin.display(description="booked", ordering="booked")
    def booked_credits(self, late: LateCompletion) -> str:
        return short_text(late.booked)


@admin.register(Line)
class LineAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "finish_tag"]
    list_select_related = ["tenant", "pool"]
    list_filter = ["pool"]
    search_fields = ["tenant__name"]
    ordering = ["id"]
