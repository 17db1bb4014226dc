"""The first page of the admin: every pool as a grid of its sessions, with the numbers that matter, updating by itself."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse

from jobs.queries import occupancy

MOST_SESSIONS = 2_000  # drawn; of more, the first are
recent = occupancy.Recent(1.0)


@admin.site.admin_view
def numbers(_request: HttpRequest) -> HttpResponse:
    """What the page asks for every two seconds: pools with their numbers and sessions."""
    return JsonResponse({"pools": pools()}, headers={"Cache-Control": "no-store"})


def pools() -> list[dict[str, Any]]:
    """Per pool what `occupancy.by_pool` says, and `grid`: one entry per session, in the order of accounts."""
    rows = [{**row, "grid": []} for row in recent.rows()]
    by_id = {row["id"]: row for row in rows}
    for session in occupancy.sessions(list(by_id), MOST_SESSIONS):
        by_id[session["pool_id"]]["grid"].append(
            {
                "id": session["id"],
                "name": f"{session['account']} #{session['number']}",
                "state": session["state"],
                "accepting": session["accepting"],
                "job": str(session["job_id"]) if session["state"] in ("reserved", "busy") else None,
                "until": session["available_at"],
                "reason": session["reason"],
            }
        )
    return rows
