"""What operators and their machines ask: alive, ready, numbers. No key, no tenant's data."""

from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST

from jobs import redis_hints
from jobs.api import metrics
from jobs.api.answers import answer


def healthz(_request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return answer({"status": "ok"})


def readyz(_request: HttpRequest) -> HttpResponse:
    """200 with the database there; Redis away is degraded, not down: submits are still accepted."""
    database, broker = _database_answers(), redis_hints.reachable()
    status = "unavailable" if not database else "ok" if broker else "degraded"
    parts = {"database": "ok" if database else "away", "broker": "ok" if broker else "away"}
    return answer({"status": status, **parts}, 200 if database else 503, {} if database else {"Retry-After": "1"})


def numbers(_request: HttpRequest) -> HttpResponse:
    """The processes' counters, and what the rows say; `berth_rows_read` is 0 when the database did not answer."""
    return HttpResponse(metrics.text(), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return False
    return True
