"""The verdict: what the book says about the broker since a mark: overlaps, doubles, utilisation, hand-off."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from simulator.accounts import Accounts
from simulator.book import Book, Mark
from simulator.executions import Execution
from simulator.times import now

COUNTED = (
    "received",
    "repeats",
    "rejected_over_limit",
    "overlaps",
    "throttled",
    "refused",
    "polls",
    "cancels",
    "finds",
)


def report(book: Book, accounts: Accounts, mark: Mark, configured_latency: str) -> dict[str, Any]:
    """See README: each field and its unit."""
    executions = book.executions[mark.executions :]
    started = [execution for execution in executions if execution.started_at is not None]
    starts = [execution.started_at or 0.0 for execution in started]
    first, last = (min(starts), max(starts)) if starts else (0.0, 0.0)
    sessions = sum(account.sessions for account in accounts)
    capacity_seconds = sessions * (last - first)
    busy_seconds = sum(_busy_seconds(execution, first, last) for execution in started)
    held = [1000 * (execution.ended_at - execution.started_at) for execution in started
            if execution.ended_at is not None and execution.started_at is not None]  # fmt: skip
    return {
        "executions": len(executions),
        **{name: book.counts[name] - mark.counts[name] for name in COUNTED},
        "jobs": len({execution.reference or execution.id for execution in executions}),
        "double_executions": len(_doubles(executions)),
        "doubles": sorted(_doubles(executions))[:20],
        "max_running": _max_running(book.executions, mark.at),
        "sessions": sessions,
        "utilisation": round(busy_seconds / capacity_seconds, 4) if capacity_seconds else None,
        "utilisation_window_s": round(last - first, 3),
        "handoff_ms": _spread(_handoffs_ms(started)),
        "billed_units": _billed(executions),
        "outcomes": dict(Counter(execution.outcome or execution.status for execution in executions)),
        "latency_ms": {**_spread(held), "configured": configured_latency},
    }


def _busy_seconds(execution: Execution, first: float, last: float) -> float:
    """Of this execution inside the window from the first start to the last, while there was a backlog."""
    begun = execution.started_at or 0.0
    over = execution.handed_over_at
    return max(0.0, min(last if over is None else over, last) - max(begun, first))


def _handoffs_ms(started: Sequence[Execution]) -> list[float]:
    """Gaps between the end of an execution, as the caller could know it, and the next start on its session."""
    by_session: dict[tuple[int, int], list[Execution]] = defaultdict(list)
    for execution in started:
        by_session[id(execution.account), execution.slot].append(execution)
    gaps = []
    for line in by_session.values():
        line.sort(key=lambda execution: execution.started_at or 0.0)
        for before, after in pairwise(line):
            if before.handed_over_at is not None and after.started_at is not None:
                gaps.append(max(0.0, 1000 * (after.started_at - before.handed_over_at)))
    return gaps


def _doubles(executions: Iterable[Execution]) -> set[str]:
    """Jobs with more than one execution that had an effect."""
    effects = Counter(execution.reference for execution in executions if execution.reference and execution.carried_out)
    return {reference for reference, count in effects.items() if count > 1}


def _max_running(executions: Iterable[Execution], since: float) -> dict[str, int]:
    """The most that ran at one time per account, from the starts and ends themselves."""
    moves: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for execution in executions:
        if execution.started_at is None or (execution.ended_at or now()) < since:
            continue
        moves[execution.account.name].append((execution.started_at, 1))
        if execution.ended_at is not None:
            moves[execution.account.name].append((execution.ended_at, -1))
    most = {}
    for account, account_moves in sorted(moves.items()):
        running = peak = 0
        for _, change in sorted(account_moves):
            running += change
            peak = max(peak, running)
        most[account] = peak
    return most


def _billed(executions: Iterable[Execution]) -> dict[str, float]:
    billed: Counter[str] = Counter()
    for execution in executions:
        billed[execution.account.name] += execution.billed  # type: ignore[assignment]
    return dict(sorted(billed.items()))


def _spread(values: list[float]) -> dict[str, Any]:
    """p50 and p99 by nearest rank; null when there is nothing to measure."""
    values = sorted(values)
    if not values:
        return {"p50": None, "p99": None, "n": 0}

    def rank(share: float) -> float:
        return round(values[math.ceil(share * len(values)) - 1], 3)

    return {"p50": rank(0.5), "p99": rank(0.99), "n": len(values)}
