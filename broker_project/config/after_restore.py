"""Which pools a plan closes, since a restore is not over yet and did not know of what the plan brings back."""

from collections.abc import Iterator
from datetime import datetime

from broker_project.config.plan import Change, Plan
from broker_project.config.plan_moves import is_called_otherwise, is_found_otherwise
from jobs import reclosing
from pool.models import Pool


def closings(plan: Plan) -> dict[str, datetime]:
    """By name the pools that are to be closed, and until when."""
    longest_ms: dict[str, int] = {}
    for change in plan.of("job type", "create", "change"):
        if (runtime_ms := _new_runtime_ms(change)) is not None:
            name = change.columns.get("pool") or change.stored.pool.name
            longest_ms[name] = max(runtime_ms, longest_ms.get(name, 0))
    return reclosing.closings(longest_ms)


def doubts(plan: Plan) -> reclosing.Doubts:
    """Whose waiting jobs the lost commits may have sent to where the plan leads calls now."""
    grown = {pool for pool, _ in (change.name for change in plan.of("account", "create"))}
    types, accounts = plan.of("job type", "change"), plan.of("account", "change")
    of_accounts = (change.stored.pool_id for change in accounts if is_called_otherwise(change))
    # Another credential may be that of another account of the upstream.
    of_others = {change.stored.pool_id for change in accounts if "credential" in change.columns}
    of_pools = (change.stored.pk for change in plan.of("pool", "change") if is_called_otherwise(change))
    return reclosing.Doubts(
        pools={*Pool.objects.filter(name__in=grown).values_list("pk", flat=True), *of_others},
        types={change.stored.pk for change in types if is_found_otherwise(change)},
        pools_otherwise={*of_pools, *of_accounts},
        types_otherwise={change.stored.pk for change in types if is_called_otherwise(change)},
    )


def notes(plan: Plan) -> Iterator[str]:
    """What the plan says of it."""
    for name, until in closings(plan).items():
        yield f"pool {name}: closed until {until:%Y-%m-%d %H:%M:%S} UTC, since a restore did not know what ran in it"
    for pool in Pool.objects.filter(pk__in=doubts(plan).pools_concerned()).order_by("name"):
        yield (
            f"pool {pool.name}: jobs that wait since a restore are suspected anew, since they may be known there;"
            " of those that nobody has asked for yet and that are called otherwise now, a denial decides nothing: what is"
            " not found fails with outcome_unknown when the pool opens"
        )


def _new_runtime_ms(change: Change) -> int | None:
    """How long its jobs run, where they may do so in this pool only now, or only now so long."""
    runtime_ms: int = change.columns.get("max_runtime_ms", change.stored and change.stored.max_runtime_ms)
    is_new = change.action == "create" or "pool" in change.columns or runtime_ms > change.stored.max_runtime_ms
    return runtime_ms if is_new else None
