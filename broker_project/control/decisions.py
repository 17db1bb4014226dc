"""What an operator may say of an outcome that nobody can find out."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from broker_project.control.jobs import JobOperation
from credits.pricing import short_text
from jobs import decisions, outlook
from jobs.models import Job
from jobs.queries.under_way import under_way
from jobs.states import UNKNOWN
from statemachine.operations import Effect, Refused

EXECUTED, GIVE_BACK = "executed", "give_back"


class WhatIsKnown(forms.Form):
    """What the operator found out, and how."""

    outcome = forms.ChoiceField(
        choices=[
            (EXECUTED, "it was executed: charge"),
            (GIVE_BACK, "it was not, or we do not know: give back"),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    units = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1e15,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="If it was executed: as the upstream counts them. Empty: what was held is charged if units are needed.",
    )
    reason = forms.CharField(
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="What you looked at. Kept with your name as evidence, not shown to the tenant.",
    )


class Decide(JobOperation):
    """PROCESSING → COMPLETED, FAILED or CANCELLED by an operator's word, fenced like an answer."""

    name, title, icon, form = "decide", "Decide the outcome", "gavel", WhatIsKnown
    says = (
        "The outcome is taken from you instead of the upstream, and its session is declared over: the next job gets it. "
        "Make sure that it is over. A success that surfaces after giving back is booked as our loss. "
        "Waiting suffices where the upstream can still be asked, or max_runtime ends it in time: the effect says what comes "
        "of it by itself."
    )

    def concerns(self, row: Job) -> bool:
        return row.state == "processing" and bool(decisions.mark(row.pk))

    def mark(self, row: Job) -> str:
        return f"{super().mark(row)}/{decisions.mark(row.pk)}"

    def effects(self, rows: Sequence[Job], data: Mapping[str, Any]) -> list[Effect]:
        return [self._effect(job, data) for job in rows]

    def perform(self, row: Job, data: Mapping[str, Any]) -> str:
        word = decisions.Word(data["outcome"] == EXECUTED, data["reason"], data["actor"], data["units"])
        try:
            job = decisions.decide(row.pk, word)
        except decisions.NothingToDecide as why:
            raise Refused(str(why)) from why
        if job.state == "processing":
            return "decided; what follows for the job could not be done yet and is tried again"
        if job.state == "completed":
            return f"completed, {short_text(job.charged)} credits are charged; its session is free"
        return f"{job.state}, {short_text(job.price)} credits are given back; its session is free"

    def _effect(self, job: Job, data: Mapping[str, Any]) -> Effect:
        if not self.concerns(job):
            return Effect(job, job.state, "", "no outcome of it is unknown, or it is being found out right now")
        now = f"{job.state}, {_standing(job)}"
        if data["outcome"] == EXECUTED:
            charged, owed = decisions.cost(job.pk, data["units"])
            more = f", and {short_text(owed)} are owed" if owed else ""
            then = f"completed; {short_text(charged)} of {short_text(job.price)} credits are charged{more}"
            return Effect(job, now, then)
        then = "cancelled" if job.cancel_requested_at else "failed (outcome_unknown)"
        return Effect(job, now, f"{then}; {short_text(job.price)} credits are given back")


def _standing(job: Job) -> str:
    """What is known of it, and what comes of it if nothing is decided."""
    flight = under_way([job.pk]).get(job.pk)
    if flight is None:
        return "outcome unknown"
    known = "outcome unknown" if flight.row["verdict"] == UNKNOWN else "overdue at the upstream"
    return f"{known}. If you only wait: {outlook.by_itself(flight)}"
