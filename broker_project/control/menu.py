"""The menu beside every page of the admin, in the words of the design."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from credits.models import Allowance, Balance, Ceiling, Hold, Lot, Reading, Transfer
from files.models import File
from jobs.models import Attempt, Job, JobMove, JobType, LateCompletion, Redrive
from pool.models import Pool, Resource, ResourceMove, UpstreamAccount
from statemachine.operations import Link
from tenants.models import ApiKey, Tenant

DEAD_LETTERS = "only=dead_letters"


def stylesheet(_request: HttpRequest) -> str:
    """Our own few classes; unfold's stylesheet has those that it uses."""
    return static("berth/control.css")


def icon(_request: HttpRequest) -> str:
    """What a browser shows in its tab."""
    return static("berth/icon.svg")


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Groups of entries, as unfold wants them."""

    def list_of(model: Any, title: str, icon: str, query: str = "") -> dict[str, Any]:
        app, name = model._meta.app_label, model._meta.model_name
        address = reverse(f"admin:{app}_{name}_changelist")
        allowed = request.user.has_perm(f"{app}.view_{name}")
        # Two entries lead to one list: the one whose filter is set is where we are.
        here = request.path.startswith(address) and (DEAD_LETTERS in request.get_full_path()) == bool(query)
        return {
            "title": title,
            "icon": icon,
            "link": f"{address}{query}",
            "permission": lambda _: allowed,
            "active": lambda _: here,
        }

    return [
        {"items": [{"title": "Live", "icon": "monitoring", "link": reverse("admin:index")}]},
        {"title": "Work", "items": [
            list_of(Job, "Jobs", "list_alt"),
            list_of(Job, "Dead letters", "report", f"?{DEAD_LETTERS}"),
            list_of(Redrive, "Redrives", "replay_circle_filled"),
            list_of(Attempt, "Attempts", "swap_calls"),
            list_of(JobMove, "Moves of jobs", "history"),
            list_of(JobType, "Job types", "category"),
        ]},
        {"title": "Capacity", "items": [
            list_of(Pool, "Pools", "dns"),
            list_of(UpstreamAccount, "Accounts", "badge"),
            list_of(Resource, "Sessions", "grid_view"),
            list_of(ResourceMove, "Moves of sessions", "history"),
            list_of(Reading, "Readings", "speed"),
        ]},
        {"title": "Customers", "items": [
            list_of(Tenant, "Tenants", "groups"),
            list_of(ApiKey, "API keys", "key"),
            list_of(Balance, "Balances", "account_balance_wallet"),
            list_of(Hold, "Holds", "lock"),
            list_of(Lot, "Lots", "inventory_2"),
            list_of(Transfer, "Transfers", "receipt_long"),
            list_of(Allowance, "Allowances", "event_repeat"),
            list_of(File, "Files", "attach_file"),
            list_of(LateCompletion, "Late completions", "schedule"),
            list_of(Ceiling, "Budgets of all", "savings"),
        ]},
        {"title": "Elsewhere", "items": [
            {"title": link.text, "icon": icon, "link": link.address} for icon, link in _elsewhere()
        ]},
    ]  # fmt: skip


def _elsewhere() -> list[tuple[str, Link]]:
    flower = [("local_florist", Link("Flower: workers and tasks", settings.FLOWER_URL))] if settings.FLOWER_URL else []
    return [
        *flower,
        ("menu_book", Link("API documentation", reverse("docs"))),
        ("monitoring", Link("Metrics", "/metrics")),
        ("manage_accounts", Link("Logins", reverse("admin:auth_user_changelist"))),
    ]
