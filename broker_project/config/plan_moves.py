"""What applying would do to calls under way: an upstream that stands elsewhere is asked for work it may not know."""

from typing import Any, Final

from django.db.models import Count

from broker_project.config.plan import Change, Plan
from jobs.models import Attempt

WHERE: Final = ("adapter", "base_url")


def plan_moves(plan: Plan) -> None:
    """Says beside an address that changes how many attempts are under way; the plan's changes are made already."""
    for change in plan.of("pool", "change"):
        stored, wanted = change.stored.upstream, change.columns.get("upstream", {})
        if wanted and any(stored.get(name) != wanted.get(name) for name in WHERE):
            _tell(change, account__pool=change.stored, account__base_url="")
    for change in plan.of("account", "change"):
        if "base_url" in change.columns:
            _tell(change, account=change.stored)


def _tell(change: Change, **whose: Any) -> None:
    under_way = Attempt.objects.filter(ended_at=None, called_at__isnull=False, **whose).aggregate(n=Count("pk"))["n"]
    if under_way:
        change.lines.append(
            f"warning: {under_way} attempts are under way; what came of them is asked at the new address, and one that"
            " denies them has their jobs run again: drain first, unless it is the same upstream"
        )
