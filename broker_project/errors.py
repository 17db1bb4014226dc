"""Errors as answers: one table from what the domain raised to a problem (RFC 9457), and nothing else decides a status.

Errors are raised as facts where they happen. Views let them pass; `problem_response` translates those of the API,
the middleware `Problems` those that Django itself answers (no such address, a broken host header, a crash).
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.core.exceptions import DisallowedHost
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from rest_framework import exceptions as drf

from broker_project.request_ids import id_of
from credits.errors import BudgetExceeded, InsufficientCredits, NoWallet, Paced
from credits.pricing import decimal_text
from files import errors as files
from jobs import admission, callbacks
from jobs.api import refusals
from jobs.api.answers import time_text
from jobs.replays import NotReplayable, VersionChanged

CONTENT_TYPE = "application/problem+json"
RETRY_SECONDS = "1"
BUDGET_RETRY_SECONDS = 60  # a closing gives held credits back, or the period ends: neither is known beforehand
LOST_RETRY_SECONDS = 10  # its pool is closed for longer; then it waits for news for max_runtime, which may be short
FULL_RETRY_SECONDS = 60  # a file expires, or is deleted


@dataclass(frozen=True)
class Problem:
    """A kind of problem: its status and what it means to whoever asked."""

    status: int
    title: str
    retry: bool = False


PROBLEMS: Mapping[str, Problem] = {
    "malformed": Problem(400, "The request could not be read"),
    "idempotency-key-missing": Problem(400, "An Idempotency-Key is required"),
    "idempotency-key-invalid": Problem(400, "The Idempotency-Key is not usable"),
    "unauthenticated": Problem(401, "A valid API key is required"),
    "insufficient-credits": Problem(402, "The credits do not cover the price"),
    "forbidden-scope": Problem(403, "The API key may not do this"),
    "not-found": Problem(404, "There is no such thing"),
    "method-not-allowed": Problem(405, "This address does not take this method"),
    "request-in-progress": Problem(409, "A request with this key is still running", retry=True),
    "file-in-use": Problem(409, "A job that has not ended refers to the file"),
    "job-failed": Problem(409, "The job ended without a result"),
    "not-replayable": Problem(409, "The job may not run again"),
    "gone": Problem(410, "It was there, and is not kept any more"),
    "version-changed": Problem(412, "The job has moved on since it was looked at"),
    "payload-too-large": Problem(413, "The request is too large"),
    "validation": Problem(422, "The request does not say something that can be done"),
    "idempotency-key-reused": Problem(422, "The Idempotency-Key was used for another request"),
    "price-exceeds-max": Problem(422, "The price is above max_price"),
    "quota-exceeded": Problem(429, "A limit of the tenant, or of all, is reached for now", retry=True),
    "internal": Problem(500, "Something went wrong here; nothing was done"),
    "temporary-reduced-capacity": Problem(
        503, "Not available now; repeat it with the same Idempotency-Key", retry=True
    ),
}
_BY_STATUS = {400: "malformed", 401: "unauthenticated", 403: "forbidden-scope", 404: "not-found",
              405: "method-not-allowed", 413: "payload-too-large", 500: "internal",
              503: "temporary-reduced-capacity"}  # fmt: skip


def _faults(fields: list[admission.InvalidField]) -> dict[str, Any]:
    return {"errors": [{"pointer": field.pointer, "detail": field.detail} for field in fields]}


def _said(_error: Any) -> dict[str, Any]:
    return {}


def _budget(error: BudgetExceeded) -> dict[str, Any]:
    """What is used by all tenants together is nobody's to know."""
    own = {"budget": decimal_text(error.budget), "used": decimal_text(error.used)} if error.whose == "tenant" else {}
    of_all = " of all tenants" if error.whose == "all" else ""
    return {"quota": f"{error.period} budget{of_all}", "required": decimal_text(error.required), **own,
            "resets_at": time_text(error.resets_at), "retry_after_seconds": BUDGET_RETRY_SECONDS}  # fmt: skip


# What was raised → code of the problem, members beside the common ones. The first class that fits decides.
TABLE: tuple[tuple[type[Exception], str, Callable[[Any], dict[str, Any]]], ...] = (
    (refusals.InvalidFields, "validation", lambda e: _faults(e.fields)),
    (admission.InvalidField, "validation", lambda e: _faults([e])),
    (admission.PayloadTooLarge, "payload-too-large", lambda e: {"size": e.size, "limit": e.limit}),
    (refusals.BodyTooLarge, "payload-too-large", lambda e: {"limit": e.limit}),
    (refusals.Malformed, "malformed", _said),
    (refusals.IdempotencyKeyMissing, "idempotency-key-missing", _said),
    (refusals.IdempotencyKeyInvalid, "idempotency-key-invalid", _said),
    (admission.KeyReused, "idempotency-key-reused", lambda e: {"job_id": str(e.job_id)}),
    (admission.RequestInProgress, "request-in-progress", _said),
    (admission.PriceExceedsMax, "price-exceeds-max",
     lambda e: {"price": decimal_text(e.price), "max_price": decimal_text(e.max_price)}),
    (InsufficientCredits, "insufficient-credits",
     lambda e: {name: decimal_text(getattr(e, name)) for name in ("required", "available", "held")}),
    (BudgetExceeded, "quota-exceeded", _budget),
    (Paced, "quota-exceeded", lambda e: {"quota": "pace", "retry_after_seconds": math.ceil(e.seconds)}),
    (NoWallet, "insufficient-credits", lambda _: {"available": decimal_text(0), "held": decimal_text(0)}),
    (files.FileTooLarge, "payload-too-large", lambda e: {"limit": e.limit}),
    (files.TenantFull, "quota-exceeded", lambda e: {
        "quota": "file bytes", "limit": e.limit, "used": e.used, "required": e.required,
        "retry_after_seconds": FULL_RETRY_SECONDS}),
    (files.FileCut, "malformed", _said),
    (files.FileInUse, "file-in-use", lambda e: {"job_id": str(e.job_id)}),
    (files.FileGone, "gone", _said),
    (files.NoSuchFile, "not-found", _said),
    (refusals.JobFailed, "job-failed", lambda e: {"state": e.state, "error": e.error}),
    (NotReplayable, "not-replayable", lambda e: {"state": e.state}),
    (VersionChanged, "version-changed", lambda e: {"version": e.version}),
    (refusals.NotFound, "not-found", _said),
    (Http404, "not-found", _said),
    (drf.NotAuthenticated, "unauthenticated", _said),
    (drf.AuthenticationFailed, "unauthenticated", _said),
    (drf.PermissionDenied, "forbidden-scope", _said),
    (drf.MethodNotAllowed, "method-not-allowed", _said),
    (drf.APIException, "malformed", _said),
    (DisallowedHost, "malformed", _said),
    (callbacks.AttemptLost, "temporary-reduced-capacity", lambda _: {"retry_after_seconds": LOST_RETRY_SECONDS}),
    (OperationalError, "temporary-reduced-capacity", _said),
    (InterfaceError, "temporary-reduced-capacity", _said),
)  # fmt: skip
# Facts whose own words help; the rest would tell of our inside, or differ where answers must be the same.
_SPEAKING = (admission.PayloadTooLarge, admission.KeyReused, admission.RequestInProgress, admission.PriceExceedsMax,
             refusals.InvalidFields, refusals.BodyTooLarge, refusals.Malformed, refusals.IdempotencyKeyMissing,
             refusals.IdempotencyKeyInvalid, refusals.JobFailed, admission.InvalidField, NotReplayable,
             VersionChanged, files.FileTooLarge, files.TenantFull, files.FileCut, files.FileInUse,
             files.FileGone)  # fmt: skip


def problem_response(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """DRF's exception handler. None for what is not in the table: it is logged and answered as internal."""
    request = context["request"]._request
    for kind, code, members in TABLE:
        if isinstance(error, kind):
            detail = {"detail": str(error)} if isinstance(error, _SPEAKING) else {}
            response = problem(request, code, {**detail, **members(error)})
            if header := getattr(error, "auth_header", None):
                response["WWW-Authenticate"] = header
            return response
    return None


def problem(request: HttpRequest, code: str, members: Mapping[str, Any]) -> HttpResponse:
    """The problem `code` as an answer."""
    kind = PROBLEMS[code]
    try:
        address = request.build_absolute_uri(f"/problems/{code}")
    except DisallowedHost:
        address = f"/problems/{code}"
    body = {"type": address, "title": kind.title, "status": kind.status, "code": code, **members,
            "request_id": id_of(request)}  # fmt: skip
    wait = str(members.get("retry_after_seconds", RETRY_SECONDS))
    headers = {"Cache-Control": "private, no-store", **({"Retry-After": wait} if kind.retry else {})}
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    length = {"Content-Length": str(len(content))}
    return HttpResponse(content, status=kind.status, content_type=CONTENT_TYPE, headers={**headers, **length})


class Problems:
    """Middleware: whatever else answers an error outside of the operator's pages answers it as a problem."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        status = response.status_code
        spoken = response.get("Content-Type", "").startswith((CONTENT_TYPE, "application/json"))
        if status < HTTPStatus.BAD_REQUEST or spoken or request.path.startswith(("/admin", "/static")):
            return response
        code = _BY_STATUS.get(status, "malformed" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "internal")
        made = problem(request, code, {})
        made.status_code = status
        if "Allow" in response:
            made["Allow"] = response["Allow"]
        return made

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The database away is no crash of ours."""
        if isinstance(error, OperationalError | InterfaceError) and not request.path.startswith("/admin"):
            return problem(request, "temporary-reduced-capacity", {})
        return None


def explain(_request: HttpRequest, code: str) -> HttpResponse:
    """What a problem's `type` leads to."""
    if code not in PROBLEMS:
        raise Http404
    kind = PROBLEMS[code]
    return HttpResponse(f"{code} ({kind.status}): {kind.title}.\n", content_type="text/plain; charset=utf-8")
