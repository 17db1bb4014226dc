"""Redrives in an operator's hands: which dead letters run again and how fast, how far that is, and stopping it."""

import re
import uuid
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from django import forms
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from broker_project.control.money_forms import WithReason
from broker_project.control.words import list_of, several
from credits.pricing import short_text
from jobs import redrives
from jobs.dead_letters import Filter, NoSuchFilter
from jobs.models import Job, Redrive
from jobs.queries import dead_letters
from statemachine.admin import ReadOnlyAdmin, states_filter
from statemachine.operations import Effect, Operation, Refused, Section

PERMISSION = "jobs.change_job"  # that of running one again
MOST_ROWS = 30  # of the effect
SAYS = (
    "All dead letters that fit and have failed by now run again one after the other, oldest first, each held anew and at the"
    " end of its tenant's line. What cannot be held stays a dead letter; what fails again is not taken up again."
)
_TOKEN = re.compile(r"[0-9a-f]{32}")


def _words(help_text: str = "") -> forms.CharField:
    return forms.CharField(required=False, max_length=200, widget=UnfoldAdminTextInputWidget, help_text=help_text)


class Wanted(WithReason):
    """The filter, the rate, and why."""

    code = _words("The error code, e.g. outcome_unknown. What is left empty says nothing.")
    type = _words()
    pool = _words()
    tenant = _words()
    since = _words("Failed since: 2026-11-30 15:00 (UTC), 2026-11-30, or 2h (ago).")
    until = _words("Failed before.")
    rate = forms.FloatField(
        initial=redrives.DEFAULT_RATE,
        min_value=Redrive.LEAST_RATE,
        max_value=Redrive.MOST_RATE,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Replays per second, at most.",
    )
    most = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=Redrive.MOST_JOBS,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Replays in all, at most. Empty: all.",
    )

    def clean(self) -> dict[str, Any]:
        """With `wanted`, what the words mean."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            given["wanted"] = Filter.of_words({name: given.get(name, "") for name in Filter.__dataclass_fields__})
        except NoSuchFilter as why:
            raise ValidationError(str(why)) from why
        return given


class RedriveAdmin(ReadOnlyAdmin):
    """Every redrive with its progress, and the page that begins one."""

    list_display = ["id", "what", "state", "replayed", "refused", "rate", "actor", "began_at", "ended_at"]
    list_filter = [states_filter("state", Redrive.State.values)]
    exclude = ["seen_at", "seen_id", "paced_until", "token", "filter", "reasons"]
    readonly_fields = ["what"]
    main_fields = [
        "what",
        "state",
        "replayed",
        "refused",
        "rate",
        "most",
        "why",
        "actor",
        "began_at",
        "ended_at",
        "ended_by",
    ]
    ordering = ["-id"]

    @staticmethod
    def what(redrive: Redrive) -> str:
        return str(Filter.of_data(redrive.filter))

    def get_urls(self) -> list[URLPattern]:
        return [
            path("begin", self.admin_site.admin_view(self.begin_view), name="jobs_redrive_begin"),
            *super().get_urls(),
        ]

    def begin_view(self, request: HttpRequest) -> HttpResponse:
        """The form (filled in from the address), the effect, or the redrive that was begun."""
        if not request.user.has_perm(PERMISSION):
            raise PermissionDenied
        if request.method != "POST":
            return self._page(request, Wanted(initial=request.GET.dict()), None)
        form = Wanted(request.POST)
        if not form.is_valid():
            return self._page(request, form, None)
        if "confirm" not in request.POST:
            return self._page(request, form, _effect(form.cleaned_data))
        try:
            redrive = _begin(request, form.cleaned_data, _token(request))
        except redrives.TokenUsed as why:
            form.add_error(None, str(why))
            return self._page(request, form, None, token=uuid.uuid4().hex)
        return HttpResponseRedirect(reverse("admin:jobs_redrive_change", args=[redrive.pk]))

    def _page(
        self, request: HttpRequest, form: Wanted, effect: Mapping[str, Any] | None, token: str = ""
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Redrive dead letters",
            "says": SAYS,
            "form": form,
            "effect": effect,
            "token": token or _token(request),
            "back": list_of(Job, "", only="dead_letters").address,
        }
        return TemplateResponse(request, "berth/redrive.html", context)


class StopRedrive(Operation):
    """RUNNING → STOPPED."""

    name, title, icon, permission = "stop", "Stop", "stop_circle", PERMISSION
    says = "No further job runs again by it. What runs already goes on; the rest stays dead letters."

    def concerns(self, row: Redrive) -> bool:
        return row.state == Redrive.State.RUNNING

    def effects(self, rows: Sequence[Redrive], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(redrive) for redrive in rows]

    def perform(self, row: Redrive, data: Mapping[str, Any]) -> str:
        if not redrives.stop(row.pk, data["actor"]):
            raise Refused("it had ended")
        row.refresh_from_db()
        return f"stopped after {several(row.replayed, 'replay')}"

    def _effect(self, redrive: Redrive) -> Effect:
        now = f"{redrive.state}, {redrive.replayed} replayed"
        return Effect(redrive, now, "stopped", "" if self.concerns(redrive) else f"it is {redrive.state}")


def progress_of(redrive: Redrive) -> Section:
    """How many ran again, were refused and are left."""
    cells: list[tuple[str, Any]] = [
        ("Replayed", redrive.replayed),
        ("Refused, and still dead letters", redrive.refused),
    ]
    cells += [(f"– {why}", number) for why, number in sorted(redrive.reasons.items())]
    if redrive.state == Redrive.State.RUNNING:
        wanted = Filter.of_data(redrive.filter).terms()
        rows, whole = dead_letters.count(wanted, redrive.seen_at, redrive.seen_id, redrive.began_at)
        fit = sum(row["jobs"] for row in rows)
        left = fit if redrive.most is None else min(fit, redrive.most - redrive.replayed)
        cells.append(("To come", left if whole or left < fit else f"{left} or more"))
        cells.append(("At the earliest done in", f"{ceil(left / redrive.rate)} s"))
    links = [list_of(Job, "dead letters", only="dead_letters", **_as_in_list(redrive.filter))]
    return Section("Progress", ["What", "Jobs"], cells, links=links)


def _as_in_list(said: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in said.items() if name in ("code", "tenant", "since", "until")}


def _effect(given: Mapping[str, Any]) -> dict[str, Any]:
    rows, whole = given["wanted"].count()
    jobs, price = sum(row["jobs"] for row in rows), sum(row["price"] for row in rows)
    shown = [{**row, "credits": short_text(row["price"])} for row in rows[:MOST_ROWS]]
    more = f" Of these {len(rows)} lines the first {MOST_ROWS} are shown." if len(rows) > MOST_ROWS else ""
    least = "" if whole else "At least "
    again = min(jobs, given["most"] or jobs)
    bound = f", of which at most {again:,} run again" if again < jobs else ""
    lasts = ceil(again / given["rate"])
    return {
        "given": [("Dead letters", str(given["wanted"])), ("Rate", f"{given['rate']:g} a second"),
                  ("At most", given["most"] or "all"), ("Reason", given["reason"])],
        "rows": shown,
        "summary": f"{least}{several(jobs, 'job')}, {short_text(price)} credits{bound}; it takes at least {lasts} s.{more}",
    }  # fmt: skip


def _begin(request: HttpRequest, given: Mapping[str, Any], token: str) -> Redrive:
    """Begun and recorded in one transaction; a page sent twice leads to the same redrive."""
    actor, wanted = f"admin:{request.user.get_username()}", given["wanted"]
    with transaction.atomic():
        redrive, begun = redrives.begin(
            wanted, given["rate"], given["most"], why=given["reason"], actor=actor, token=token
        )
        if begun:
            LogEntry.objects.create(
                user_id=int(request.user.pk or 0),
                content_type_id=ContentType.objects.get_for_model(redrive).pk,
                object_id=str(redrive.pk),
                object_repr=str(redrive),
                action_flag=CHANGE,
                change_message=f"Begun: {wanted}, {given['rate']:g} a second (reason: {given['reason']})"[:2000],
            )
    return redrive


def _token(request: HttpRequest) -> str:
    sent = request.POST.get("token", "")
    return sent if _TOKEN.fullmatch(sent) else uuid.uuid4().hex
