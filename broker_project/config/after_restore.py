"""Which pools a plan closes, since a restore is not over yet and did not know of what the plan brings back."""

from collections.abc import Iterator
from datetime import datetime

from broker_project.config.plan import Change, Plan
from jobs import reclosing


def closings(plan: Plan) -> dict[str, datetime]:
    """By name the pools that are to be closed, and until when."""
    longest_ms: dict[str, int] = {}
    for change in plan.of("job type", "create", "change"):
        if (runtime_ms := _new_runtime_ms(change)) is not None:
            name = change.columns.get("pool") or change.stored.pool.name
            longest_ms[name] = max(runtime_ms, longest_ms.get(name, 0))
    return reclosing.closings(longest_ms)


def notes(plan: Plan) -> Iterator[str]:
    """What the plan says of it."""
    for name, until in closings(plan).items():
        yield f"pool {name}: closed until {until:%Y-%m-%d %H:%M:%S} UTC, since a restore did not know what ran in it"


def _new_runtime_ms(change: Change) -> int | None:
    """How long its jobs run, where they may do so in this pool only now, or only now so long."""
    runtime_ms: int = change.columns.get("max_runtime_ms", change.stored and change.stored.max_runtime_ms)
    is_new = change.action == "create" or "pool" in change.columns or runtime_ms > change.stored.max_runtime_ms
    return runtime_ms if is_new else None
