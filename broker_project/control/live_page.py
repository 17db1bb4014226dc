"""The first page of the admin: every pool as a grid of its sessions, with the numbers that matter, updating by itself."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse

from jobs.queries import occupancy
from statemachine.sql import Row

MOST_SESSIONS, FEWEST_SESSIONS = 4_000, 50  # drawn, of all pools and of one; of more, the first are
recent = occupancy.Recent(1.0)


@admin.site.admin_view
def numbers(request: HttpRequest) -> HttpResponse:
    """What the page asks for every two seconds: pools with their numbers and sessions. For who may see sessions."""
    if not request.user.has_perm("pool.view_resource"):
        raise PermissionDenied
    return JsonResponse({"pools": pools()}, headers={"Cache-Control": "no-store"})


def pools() -> list[dict[str, Any]]:
    """Per pool what `occupancy.by_pool` says, and `grid`: one entry per session, in the order of accounts."""
    rows = recent.rows()
    most = max(FEWEST_SESSIONS, MOST_SESSIONS // max(1, len(rows)))
    return [{**row, "grid": [_cell(session) for session in occupancy.sessions([row["id"]], most)]} for row in rows]


def _cell(session: Row) -> dict[str, Any]:
    return {
        "id": session["id"],
        "account": session["account"],
        "account_id": session["account_id"],
        "name": f"{session['account']} #{session['number']}",
        "state": session["state"],
        "accepting": session["accepting"],
        "job": str(session["job_id"]) if session["job_id"] else None,
        "until": session["available_at"],
        "reason": session["reason"],
    }
