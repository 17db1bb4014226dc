"""What every view of the API shares: JSON in and out, a scope per method, and the words of an answer."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from credits.charges import charges_of
from credits.pricing import decimal_text
from jobs.api import restored
from jobs.api.refusals import NotFound
from jobs.queries.reading import MOST_AHEAD
from jobs.states import JOB
from statemachine.sql import Row
from tenants.models import ApiKey, Tenant

PRIVATE = "private, no-store"
LONGEST_RETRY_SECONDS = 60


class AlwaysJson(BaseContentNegotiation):
    """The API speaks JSON whatever is asked for: an odd Accept header is no reason to refuse work."""

    def select_parser(self, request: Request, parsers: Any) -> Any:  # noqa: ARG002  the signature is DRF's
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:  # noqa: ARG002
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view of the API. `scopes` names what a key needs per method; a method without one is denied."""

    scopes: ClassVar[Mapping[str, str]] = {}
    http_method_names = ["get", "head", "post"]
    content_negotiation_class = AlwaysJson

    @property
    def tenant(self) -> Tenant:
        """The tenant whose key was sent."""
        key: Any = self.request.auth
        if not isinstance(key, ApiKey):
            raise TypeError("a view without authentication asked for its tenant")
        return key.tenant

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Of a restore every answer tells; see `restored`."""
        finished = super().finalize_response(request, response, *args, **kwargs)
        restored.tell(finished)
        return finished


def answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """`document` as JSON. Private unless the headers say otherwise."""
    content = json.dumps(document, default=_plain, separators=(",", ":"), ensure_ascii=False)
    return HttpResponse(
        content.encode(),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": PRIVATE, **(headers or {})},
    )


def job_id(text: str) -> UUID:
    """The id in an address; what is no id is not found either. Raises NotFound."""
    try:
        return UUID(text)
    except ValueError as error:
        raise NotFound from error


def job_document(row: Row) -> dict[str, Any]:
    """A row of `queries.reading` as tenants see a job. Of one that was charged the refunds are asked for."""
    return job_documents([row])[0]


def job_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same of many rows, with one question for the refunds of all that were charged."""
    charged = [row["id"] for row in rows if row["charged"]]
    refunded: Counter[UUID] = Counter()
    for (job, _run), charge in (charges_of(charged) if charged else {}).items():
        refunded[job] += charge.refunded
    return [_job_document(row, refunded[row["id"]]) for row in rows]


def _job_document(row: Row, refunded: int) -> dict[str, Any]:
    address = f"/v1/jobs/{row['id']}"
    ended = row["state"] in JOB.terminal
    has_result = row["state"] == "completed"
    return {
        "id": row["id"],
        "type": row["type"],
        "state": row["state"],
        "phase": _phase(row),
        "cancel_requested": row["cancel_requested_at"] is not None,
        "waiting_for": waiting_for(row),
        "queue": _queue(row),
        "progress": row["progress"],
        "result": row["result"] if has_result else None,
        "result_url": f"{address}/result" if has_result else None,
        "error": row["error"],
        "credits": {
            "held": decimal_text(0 if ended else row["price"]),
            "charged": decimal_text(row["charged"]),
            "refunded": decimal_text(refunded),
        },
        # Those that count against max_attempts: being told to wait is not one. The list of attempts has all.
        "attempts": row["tries"] + (row["state"] == "processing"),
        "created_at": row["created_at"],
        "assigned_at": row["assigned_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "metadata": row["metadata"],
        "urls": {
            "self": address,
            "cancel": f"{address}/cancel",
            "result": f"{address}/result",
            "events": None,
            "ledger": None,
        },
        "version": row["version"],
    }


def waiting_for(row: Row) -> str | None:
    """What keeps a pending job: run_at, back_off, its closed pool, upstream_credits, its turn, or a session."""
    if row["state"] != "pending":
        return None
    if row["due_at"] is not None and not row["unaffordable"]:
        return "back_off" if row["tries"] or row["attempts"] else "run_at"
    if row["pool_closed"]:
        return "pool"
    if row["unaffordable"]:
        return "upstream_credits"
    return "turn" if row["turn"] is None else "session"


def retry_after(row: Row) -> dict[str, str]:
    """When to ask again, as a header; none for a job that has ended."""
    if row["state"] in JOB.terminal:
        return {}
    wait = (row["due_at"] - row["now"]).total_seconds() if row["state"] == "pending" and row["due_at"] else 1
    return {"Retry-After": str(min(max(1, math.ceil(wait)), LONGEST_RETRY_SECONDS))}


def time_text(moment: datetime) -> str:
    """RFC 3339 in UTC."""
    return moment.isoformat().replace("+00:00", "Z")


def _phase(row: Row) -> str | None:
    if row["attempt_phase"] is None:
        return None
    return "verifying" if row["attempt_verdict"] == "unknown" else str(row["attempt_phase"])


def _queue(row: Row) -> dict[str, Any] | None:
    ahead = row.get("ahead")
    if ahead is None or ahead >= MOST_AHEAD:
        return None
    return {"position": ahead + 1, "ahead": ahead, "eta_seconds": None}


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
