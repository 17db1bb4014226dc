"""What happens next: one table. The signals read it to hurry the next task, the sweep to find what a signal missed.

State decides, a signal only hurries. What moved (second column) wakes a task with arguments made from the rows that moved;
`missed` asks the database for the same arguments, and is run by the sweep in the order of the table, but for the steps
that need calls, which come before the others. Beside this table only `assign`, which wakes itself, and beat publish tasks.
With every signal lost the sweep alone ends every job.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.dispatch import receiver

from credits import reviews as holds
from jobs import redis_hints, wakes
from jobs.queries import affording, claim, dead_letters, line, missed, suspicions
from jobs.signals import (
    attempt_doubted,
    attempt_ended,
    attempt_owing,
    attempt_told,
    cancel_wanted,
    completion_late,
    job_moved,
)
from jobs.states import JOB
from jobs.transitions import REVIEW_SECONDS
from pool.queries import health, quarantine
from pool.signals import resource_moved
from statemachine.crashpoints import crashpoint
from statemachine.machine import Moved

Rows = Sequence[Mapping[str, Any]]
MOST_IDS = (
    20  # in one message: Celery tells Flower the first 1,024 characters of the arguments, and all are to be found
)
Arguments = tuple[Any, ...]
STRIDE_SECONDS = 60.0  # so late the walk through the holds sets out again, so that it does not write each second


@dataclass(frozen=True)
class Step:
    """When one of `after` happened, `task` is woken once for each of `wakes(rows)`; `at` names the column of a due time.

    What nothing wakes is no task: the sweep alone does it. `coalesce`: one outstanding wake-up per argument is enough.
    `needs_calls`: only a process that makes upstream calls can do it in a sweep of its own.
    """

    task: str
    after: tuple[str, ...]
    wakes: Callable[[Rows], Iterable[Arguments]]
    missed: Callable[[], Iterable[Arguments]]
    at: str = ""
    coalesce: bool = False
    needs_calls: bool = False


def _jobs(rows: Rows) -> Iterable[Arguments]:
    ids = sorted({str(row.get("job_id") or row["id"]) for row in rows})
    return [(ids[start : start + MOST_IDS],) for start in range(0, len(ids), MOST_IDS)]


def _resources(rows: Rows) -> Iterable[Arguments]:
    return [([row["id"] for row in rows],)]


def _pools(rows: Rows) -> Iterable[Arguments]:
    return [(pool_id,) for pool_id in sorted({row["pool_id"] for row in rows})]


def _pools_with_turns(rows: Rows) -> Iterable[Arguments]:
    """A turn needs a claim only where a session is free now; one that gets free later wakes the claim itself."""
    pool_ids = {row["pool_id"] for row in rows if row["turn"] is not None}
    return [(pool_id,) for pool_id in claim.with_free_sessions(sorted(pool_ids))] if pool_ids else []


def _lines(rows: Rows) -> Iterable[Arguments]:
    tenants: dict[int, set[int]] = {}
    for row in rows:
        tenants.setdefault(row["pool_id"], set()).add(row["tenant_id"])
    return [(pool_id, sorted(tenant_ids)) for pool_id, tenant_ids in sorted(tenants.items())]


def _short_lines(rows: Rows) -> Iterable[Arguments]:
    return _lines([row for row in rows if row.get("line_short", True)])


def _set(ids: Sequence[Any]) -> Iterable[Arguments]:
    return [(list(ids),)] if ids else []


FLOW = (
    # task        after                                             woken with          found by the sweep
    Step("unassign", (), _jobs, lambda: _set(missed.jobs_to_unassign())),
    Step("doubt", (), _jobs, lambda: _set(missed.jobs_to_doubt())),
    Step(
        "verify",
        ("attempt doubted", "attempt told"),
        _jobs,
        lambda: _set(missed.jobs_to_verify()),
        at="look_at",
        needs_calls=True,
    ),
    Step("cancel_upstream", ("cancel wanted",), _jobs, lambda: _set(missed.jobs_to_cancel()), needs_calls=True),
    Step("fetch", ("attempt owing",), _jobs, lambda: _set(missed.jobs_to_fetch()), at="fetch_at", needs_calls=True),
    Step("finish", ("attempt ended",), _jobs, lambda: _set(missed.jobs_to_finish())),
    Step("expire", (), _jobs, lambda: _set(missed.jobs_to_expire())),
    Step("release", ("resource cool",), _resources, lambda: _set(missed.resources_to_release()), at="available_at"),
    Step("replace_probes", (), _pools, lambda: [(pool_id,) for pool_id in health.without_probe()]),
    Step("reopen", (), _pools, lambda: [(pool_id,) for pool_id in quarantine.over()]),
    Step("come_due", ("job retry",), _jobs, lambda: _set(missed.jobs_come_due()), at="due_at"),
    Step("afford", (), _jobs, lambda: _set(affording.affordable_again())),
    Step(
        "promote",
        ("job assign", "job come_due", "job park"),
        _short_lines,
        lambda: [(row["pool_id"], row["tenant_ids"]) for row in line.owed()],
    ),
    Step(
        "assign",
        ("job promote", "job unassign"),
        _pools_with_turns,
        lambda: [(pool_id,) for pool_id in missed.pools_to_assign()],
        coalesce=True,
    ),
    Step(
        "assign",
        ("resource free", "resource unreserve", "resource release", "resource enable"),
        _pools,
        list,
        coalesce=True,
    ),
    Step("dispatch", ("job assign",), _jobs, lambda: _set(missed.jobs_to_dispatch()), needs_calls=True),
    # The last that needs calls: it asks for seconds, in which the other processes sweep what needs none.
    Step("inquire", (), _jobs, lambda: [()] if suspicions.any_due() else [], needs_calls=True),
    Step("book_late", ("completion late",), _jobs, lambda: _set(missed.late_completions())),
    Step("review", (), _jobs, lambda: [()] if holds.are_due(REVIEW_SECONDS + STRIDE_SECONDS) else []),
    Step("redrive", (), _jobs, lambda: [()] if dead_letters.due() else []),
)
# The arrows that end a job: what long polls wait for.
ENDS = {verb for verb, arrow in JOB.arrows.items() if arrow.target in JOB.terminal}
# The hand-off goes first: of the tasks woken by one event, the last of the table is published first.
WOKEN_BY = {event: [step for step in reversed(FLOW) if event in step.after] for step in FLOW for event in step.after}


def happened(event: str, rows: Rows) -> None:
    """Wakes what the table says comes after `event`. Where that fails, its signal logs it, and the sweep finds the rest."""
    for step in WOKEN_BY.get(event, ()):
        due = max((row[step.at] for row in rows), default=None) if step.at else None
        for arguments in step.wakes(rows):
            wakes.wake(step.task, arguments, due=due, coalesce=step.coalesce)


@receiver(job_moved)
def _job_moved(verb: str, moved: Sequence[Moved], **_kwargs: Any) -> None:
    crashpoint("finish.committed", verb in ENDS or verb == "retry")
    happened(f"job {verb}", [job.row for job in moved])
    if verb in ENDS:  # whoever waits for another change finds it by looking each second
        redis_hints.announce([job.row for job in moved])


@receiver(resource_moved)
def _resource_moved(verb: str, moved: Sequence[Moved], **_kwargs: Any) -> None:
    crashpoint("release.committed", verb != "use")
    happened(f"resource {verb}", [resource.row for resource in moved])


@receiver(attempt_ended)
def _attempt_ended(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("learn.committed")
    happened("attempt ended", rows)


@receiver(attempt_doubted)
def _attempt_doubted(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("doubt.committed")
    happened("attempt doubted", rows)


@receiver(attempt_told)
def _attempt_told(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("told.committed")
    happened("attempt told", rows)


@receiver(cancel_wanted)
def _cancel_wanted(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("cancel.committed")
    happened("cancel wanted", rows)


@receiver(completion_late)
def _completion_late(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("late.committed")
    happened("completion late", rows)


@receiver(attempt_owing)
def _attempt_owing(rows: Rows, **_kwargs: Any) -> None:
    crashpoint("owe.committed")
    happened("attempt owing", rows)
