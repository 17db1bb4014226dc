"""What applying would do to calls under way: they are asked for, and sent again, as is declared then."""

from typing import Any, Final

from django.db.models import Count

from broker_project.config.plan import Change, Plan
from jobs.models import Attempt

PLACE: Final = ("adapter", "base_url")
WAYS: Final = ("adapter", "mode", "submit", "find", "callback")  # of a type: by which an outcome is found out


def plan_moves(plan: Plan) -> None:
    """Says beside what changes how many attempts are under way; the plan's changes are made already."""
    for change in plan.of("pool", "change"):
        if _differs(change, PLACE):
            _tell(change, "at the new address", account__pool=change.stored, account__base_url="")
    for change in plan.of("account", "change"):
        if "base_url" in change.columns:
            _tell(change, "at the new address", account=change.stored)
        elif "credential" in change.columns:
            _tell(change, "with the new credential", account=change.stored)
    for change in plan.of("job type", "change"):
        if _differs(change, WAYS):
            _tell(change, "as declared now", job__type=change.stored)


def _differs(change: Change, names: tuple[str, ...]) -> bool:
    stored, wanted = change.stored.upstream, change.columns.get("upstream")
    return wanted is not None and any(stored.get(name) != wanted.get(name) for name in names)


def _tell(change: Change, how: str, **whose: Any) -> None:
    under_way = Attempt.objects.filter(ended_at=None, called_at__isnull=False, **whose).aggregate(n=Count("pk"))["n"]
    if under_way:
        change.lines.append(
            f"warning: {under_way} attempts are under way; what came of them is asked {how}: where that says they never ran,"
            " their jobs run again. Let them end first, unless the upstream knows them by it"
        )
