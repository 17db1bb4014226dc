"""What the list of jobs is narrowed by: a known few of them, and what is said of dead letters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from credits.models import Hold
from jobs.dead_letters import NoSuchFilter, moment
from jobs.models import DEAD_LETTER, Attempt, Job, JobType
from jobs.states import JOB, UNKNOWN
from pool.models import Pool

if TYPE_CHECKING:
    TextFilter = admin.SimpleListFilter
else:
    from unfold.contrib.filters.admin import TextFilter

_UNKNOWN = Attempt.objects.filter(ended_at__isnull=True, verdict=UNKNOWN).values("job_id")
_ATTENTION = Hold.objects.filter(review__needs_attention_since__isnull=False, status=Hold.Status.OPEN).values("job_id")
# What an operator looks for first: as it stands in an address, its title, which jobs it is.
ONLY = (
    ("dead_letters", "dead letters", DEAD_LETTER),
    ("waiting", "waiting", Q(state=JOB.first)),
    ("unaffordable", "waits for upstream credits", Q(state=JOB.first, unaffordable=True)),
    ("running", "running", Q(state__in=("assigned", "processing"))),
    ("unknown", "outcome unknown", Q(pk__in=_UNKNOWN)),
    ("flagged", "flagged", ~Q(flagged="")),
    ("attention", "needs attention", Q(pk__in=_ATTENTION)),
)
_NAMES: dict[str, tuple[str, Any]] = {"type__id__exact": ("type", JobType), "pool__id__exact": ("pool", Pool)}
_AS_WRITTEN = ("tenant", "code", "since", "until")
_NOT_OF_ROWS = ("only", "o", "p", "all", "e")  # dead letters themselves, and how they are shown
_TITLES = {"q": "the words of the search", "type__id__exact": "such a type", "pool__id__exact": "such a pool"}


class Only(admin.SimpleListFilter):
    """One of ONLY."""

    title, parameter_name = "only", "only"

    def lookups(self, request: Any, model_admin: Any) -> Sequence[tuple[str, str]]:  # noqa: ARG002  Django's signature
        return [(value, title) for value, title, _ in ONLY]

    def queryset(self, request: Any, queryset: QuerySet[Job]) -> QuerySet[Job]:  # noqa: ARG002
        return queryset.filter(next((jobs for value, _, jobs in ONLY if value == self.value()), Q()))


class _Said(TextFilter):
    """A field to write into; what it means is kept with the dead letters' own filter."""

    def lookups(self, request: Any, model_admin: Any) -> Sequence[tuple[str, str]]:  # noqa: ARG002  Django's signature
        return ()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        text = (self.value() or "").strip()
        if not text or "\0" in text:
            return queryset
        try:
            return queryset.filter(**self.fitting(text))
        except NoSuchFilter as why:
            messages.warning(request, str(why))
            return queryset.none()

    def fitting(self, text: str) -> dict[str, Any]:
        """What the column must be. Raises NoSuchFilter."""
        raise NotImplementedError


class OfTenant(_Said):
    """By the tenant's name."""

    title, parameter_name = "tenant", "tenant"

    def fitting(self, text: str) -> dict[str, Any]:
        return {"tenant__name": text}


class OfCode(_Said):
    """By the error code of jobs that failed; those that were put aside are no dead letters."""

    title, parameter_name = "error code of dead letters", "code"

    def fitting(self, text: str) -> dict[str, Any]:
        return {"state": "failed", "dismissed_at__isnull": True, "error__code": text}


class EndedSince(_Said):
    """By when they ended."""

    title, parameter_name = "end since (2026-11-30 15:00, or 2h)", "since"

    def fitting(self, text: str) -> dict[str, Any]:
        return {"finished_at__gte": moment("since", text)}


class EndedBefore(_Said):
    """By when they ended."""

    title, parameter_name = "end before", "until"

    def fitting(self, text: str) -> dict[str, Any]:
        return {"finished_at__lt": moment("until", text)}


def said_of_dead_letters(request: HttpRequest) -> tuple[str, str]:
    """What the list is narrowed by, as the page that begins a redrive reads it from its address; and why there is no such
    page for it, else empty: a redrive of more than what is shown is not to be offered.
    """
    said, left = {}, []
    for parameter, values in request.GET.lists():
        text = values[-1]
        if parameter in _NOT_OF_ROWS or not text:
            continue
        name, model = _NAMES.get(parameter, (parameter, None))
        if model is not None and text.isdecimal():
            text = model._default_manager.filter(pk=text).values_list("name", flat=True).first() or ""
        elif model is not None or parameter not in _AS_WRITTEN:
            text = ""
        if not text or len(values) > 1:
            left.append(_TITLES.get(parameter, parameter))
        said[name] = text
    if left:
        return (
            "",
            f"A redrive cannot be narrowed by {' and '.join(left)}: take that away to redrive all that is listed.",
        )
    return urlencode(said), ""
