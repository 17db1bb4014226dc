"""The page of an operation: what it needs, what it would do to each row, and doing it.

First a form where one is needed, then the effect, then the deed: each row in a transaction of its own, recorded in the
history of the rows by the verbs, and in the admin's own log with the reason: at the row, and where else the operation says.
"""

import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.core.exceptions import ValidationError
from django.db import DatabaseError, InterfaceError, OperationalError, transaction
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from statemachine.actors import acting_as
from statemachine.operations import MOST_ROWS, Operation, Refused

logger = logging.getLogger(__name__)
TEMPLATE = "berth/operation.html"
DONE_TEMPLATE = "berth/shown_once.html"
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Page:
    """One request to the page of `operation` on rows of the model of `admin`."""

    def __init__(self, admin: Any, operation: Operation, request: HttpRequest) -> None:
        self.admin, self.operation, self.request = admin, operation, request
        sent = request.POST if request.method == "POST" else request.GET
        self.ids = [part for part in sent.get("ids", "").split(",") if part][:MOST_ROWS]
        token = sent.get("token", "")
        self.token = token if _TOKEN.fullmatch(token) else uuid.uuid4().hex
        self.rows = rows_of(admin, request, self.ids)
        self.marks = sent.get("marks", "").split(",")

    def answer(self) -> HttpResponse:
        """The form, the effect, or what was done."""
        if not self.rows:
            raise Http404("none of these rows exists")
        needs = bool(self.operation.form.base_fields)
        if self.request.method != "POST":
            form = self.operation.form()
            return self._show(form, None if needs else {})
        form = self.operation.form(self.request.POST)
        if not form.is_valid():
            return self._show(form, None)
        if "confirm" not in self.request.POST:
            return self._show(form, form.cleaned_data)
        return self._do(form.cleaned_data)

    def _show(self, form: Any, data: Mapping[str, Any] | None) -> HttpResponse:
        """`data` is None as long as the form has to be filled in."""
        effects = None if data is None else self.operation.effects(self.rows, self._with_more(data))
        context = {
            "title": self.operation.title,
            "operation": self.operation,
            "form": form,
            "rows": self.rows,
            "effects": effects,
            "given": [] if data is None else [(field.label, _said(form, field, data)) for field in form],
            "can_be_done": any(not effect.refused for effect in effects or ()),
            "ids": ",".join(str(row.pk) for row in self.rows),
            "token": self.token,
            "marks": ",".join(self._marks()),
            "back": self._back(),
        }
        return self._page(TEMPLATE, context)

    def _do(self, data: Mapping[str, Any]) -> HttpResponse:
        given, told = self._with_more(data), []
        unchanged = dict(zip(self.ids, self.marks, strict=False))
        for row, mark in zip(self.rows, self._marks(), strict=True):
            try:
                if unchanged.get(str(row.pk), "") != mark:
                    raise Refused("it has moved on since this page was made; look again")
                with acting_as(given["actor"]):
                    done = self._deed(row, {**given, "mark": mark}, data)
            except Refused as why:
                messages.error(self.request, f"{row}: {why}")
                continue
            except (OperationalError, InterfaceError):
                logger.warning("%s of %s met a database that was busy or away", self.operation.name, row, exc_info=True)
                messages.error(self.request, f"{row}: the database did not answer in time, nothing was done; try again")
                continue
            told.append((row, done))
            if not self.operation.shows_once:
                messages.success(self.request, f"{row}: {done}")
        if told and self.operation.shows_once:
            page = self._page(DONE_TEMPLATE, {"title": self.operation.title, "told": told, "back": self._back()})
            page["Cache-Control"] = "no-store"
            return page
        return HttpResponseRedirect(self._back())

    def _marks(self) -> list[str]:
        return [self.operation.mark(row) for row in self.rows]

    def _with_more(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {**data, "actor": f"admin:{self.request.user.get_username()}", "token": self.token}

    def _deed(self, row: Model, given: Mapping[str, Any], data: Mapping[str, Any]) -> str:
        """Does it and records it; `data` is what was filled in, `given` that and more. Raises Refused."""
        if self.operation.record_is_part:
            with transaction.atomic():
                done = self.operation.perform(row, given)
                said = self._words_of(done, data)
                self._keep(row, said, given)
            logger.info("%s: %s", row, said, extra={"actor": given["actor"]})
            return done
        done = self.operation.perform(row, given)
        said = self._words_of("shown once" if self.operation.shows_once else done, data)
        logger.info("%s: %s", row, said, extra={"actor": given["actor"]})
        try:
            self._keep(row, said, given)
        except DatabaseError:  # it is done and stands in the log above; to fail now would tell that it was not
            logger.exception("what was done to %s was not kept in the admin's own log", row)
        return done

    def _words_of(self, done: str, data: Mapping[str, Any]) -> str:
        given = ", ".join(f"{name}: {_words(value)}" for name, value in data.items())
        return f"{self.operation.title}: {done}" + (f" ({given})" if given else "")

    def _keep(self, row: Model, said: str, given: Mapping[str, Any]) -> None:
        for place in (row, *self.operation.also_at(row, given)):
            LogEntry.objects.create(
                user_id=int(self.request.user.pk or 0),
                content_type_id=get_content_type_for_model(place).pk,
                object_id=str(place.pk),
                object_repr=str(place)[:200],
                action_flag=CHANGE,
                change_message=(said if place is row else f"{row}: {said}")[:2000],
            )

    def _back(self) -> str:
        site, names = self.admin.admin_site.name, self.admin.opts
        if len(self.rows) == 1:
            return reverse(f"{site}:{names.app_label}_{names.model_name}_change", args=[self.rows[0].pk])
        return reverse(f"{site}:{names.app_label}_{names.model_name}_changelist")

    def _page(self, template: str, context: Mapping[str, Any]) -> HttpResponse:
        common = self.admin.admin_site.each_context(self.request)
        return TemplateResponse(self.request, template, {**common, "opts": self.admin.opts, **context})


def _said(form: Any, field: Any, data: Mapping[str, Any]) -> str:
    """What was filled in, as a person reads it: of a choice its words."""
    choices = dict(getattr(form.fields[field.name], "choices", ()))
    value = data.get(field.name)
    return str(choices.get(value, _words(value))) if not isinstance(value, list) else _words(value)


def _words(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value if value not in (None, "") else "–")


def rows_of(admin: Any, request: HttpRequest, ids: Sequence[str]) -> list[Any]:
    """The rows with these ids that this operator may see, in the order of the ids; what is no id is passed over."""
    names = admin.model._meta
    values = [value for text in ids if (value := read_value(names, names.pk.name, text)) is not None]
    found = admin.get_queryset(request).in_bulk(values)
    return [found[value] for value in dict.fromkeys(values) if value in found]


def read_value(names: Any, column: str, text: str) -> Any:
    """The text as a value of a column of the model (its `_meta`), None when it is none."""
    field = next(each for each in names.concrete_fields if column in (each.name, each.attname))
    if "\0" in text:
        return None
    try:
        return (field.target_field if field.is_relation else field).to_python(text)
    except ValidationError:
        return None
