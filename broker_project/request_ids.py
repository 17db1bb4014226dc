"""Every request has an id: the caller's own X-Request-Id if it is a decent one, else one made here. It is sent back.

It stands on every log line that is written for the request, as does what is learned of it (its tenant).
"""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from structlog.contextvars import bind_contextvars, clear_contextvars

HEADER = "X-Request-Id"
_DECENT = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class RequestIds:
    """Outermost middleware: errors made by any other carry the id too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        clear_contextvars()
        bind_contextvars(request_id=id_of(request))
        try:
            response = self.get_response(request)
        finally:
            clear_contextvars()  # the thread serves others next
        response[HEADER] = id_of(request)
        return response


def id_of(request: HttpRequest) -> str:
    """The id of this request."""
    known: str | None = getattr(request, "berth_request_id", None)
    if known is None:
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        known = sent if _DECENT.fullmatch(sent) else uuid.uuid4().hex
        request.berth_request_id = known  # type: ignore[attr-defined]
    return known
