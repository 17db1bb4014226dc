"""What applying would do to calls under way: they are asked for, and sent again, as is declared then."""

from typing import Any, Final

from django.db.models import Count

from broker_project.config.plan import Change, Plan
from jobs.models import Attempt
from jobs.queries import called_as
from upstream.quantities import counted

FOUND_BY: Final = ("find", "callback")
UNKNOWN: Final = "they were called otherwise: where no success is found they stay unknown until max_runtime has passed"
DENIED: Final = "what came of them is asked so: where that says they never ran, their jobs run again"


def plan_moves(plan: Plan) -> None:
    """Says beside what changes how many attempts are under way; the plan's changes are made already."""
    for change in plan.of("pool", "change"):
        if is_called_otherwise(change):
            _tell(change, UNKNOWN, account__pool=change.stored)
    for change in plan.of("account", "change"):
        if is_called_otherwise(change):
            _tell(change, UNKNOWN, account=change.stored)
        elif "credential" in change.columns:
            _tell(change, DENIED, account=change.stored)
    for change in plan.of("job type", "change"):
        if is_called_otherwise(change):
            _tell(change, UNKNOWN, job__type=change.stored)
        elif is_found_otherwise(change):
            _tell(change, DENIED, job__type=change.stored)


def is_called_otherwise(change: Change) -> bool:
    """Whether calls are made otherwise by this change of a pool, an account or a job type."""
    if change.kind == "pool":
        return _differs(change, called_as.OF_POOL)
    if change.kind == "account":
        return not change.columns.keys().isdisjoint(called_as.OF_ACCOUNT)
    of_type = _differs(change, called_as.OF_TYPE)
    return of_type or _differs(change, called_as.OF_SUBMIT, "submit")


def is_found_otherwise(change: Change) -> bool:
    """Whether another asking tells of the same calls by this change of a job type."""
    return _differs(change, FOUND_BY)


def _differs(change: Change, names: tuple[str, ...], block: str = "") -> bool:
    if "upstream" not in change.columns:
        return False
    stored, wanted = change.stored.upstream, change.columns["upstream"]
    if block:
        stored, wanted = stored.get(block) or {}, wanted.get(block) or {}
    return any(stored.get(name) != wanted.get(name) for name in names)


def _tell(change: Change, what: str, **whose: Any) -> None:
    under_way = Attempt.objects.filter(ended_at=None, called_at__isnull=False, **whose).aggregate(n=Count("pk"))["n"]
    if under_way:
        change.lines.append(
            f"warning: {counted(under_way, 'attempt is', 'attempts are')} under way; {what}. Let them end first,"
            " or know what you do"
        )
