"""A write that fails, at each row that a verb writes: nothing of it stays, no hold is left without a job, a repeat succeeds."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from credits import ledger
from jobs import admission, transitions
from jobs.models import Job
from tests import db, factories
from tests.factories import MICRO
from tests.money_cases import faults
from tests.money_cases.faults import REFUSED, Fault
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db(transaction=True)
Verb = Callable[[], object]
# What may differ after a step that failed alone: when it is looked at again.
POSTPONED = ("jobs_attempt", "jobs_job")
LATER = 6  # seconds


@dataclass
class Step:
    """One verb on a world of its own; `done` tells whether it has succeeded."""

    verb: Verb
    done: Callable[[], bool]
    survives: bool = False  # it keeps what a row makes fail to itself, and is asked again later
    again: Verb = lambda: None  # what brings it back then


def stands(job: Job, state: str, posted: int, held: int) -> Callable[[], bool]:
    """The job is in this state and its wallet, of 1,000 credits, at these."""

    def holds() -> bool:
        job.refresh_from_db()
        return (job.state, *factories.money(job.tenant)) == (state, posted * MICRO, held * MICRO)

    return holds


def submit() -> Step:
    tenant, job_type = factories.make_tenant(), factories.make_job_type()
    request = admission.Request(type=job_type.name, payload={})

    def held_once() -> bool:
        return Job.objects.filter(tenant=tenant).count() == 1 and factories.money(tenant) == (1_000 * MICRO, 10 * MICRO)

    return Step(lambda: admission.submit(tenant, request, f"the-key-of-{tenant.name}", b"f" * 32), held_once)


def promote() -> Step:
    job = factories.at("pending", run_at=timezone.now() + timedelta(hours=1))
    db.let_time_pass(3_601)
    transitions.come_due([job.pk])

    def has_a_turn() -> bool:
        job.refresh_from_db()
        return job.turn is not None

    return Step(lambda: transitions.promote(job.pool_id, [job.tenant_id]), has_a_turn, survives=True)


def assign() -> Step:
    job = factories.at("pending")

    def stand_in_line() -> None:
        transitions.come_due([job.pk])
        transitions.promote(job.pool_id, [job.tenant_id])

    done = stands(job, "assigned", 1_000, 10)
    return Step(lambda: transitions.assign(job.pool_id), done, survives=True, again=stand_in_line)


def unassign() -> Step:
    job = factories.at("assigned")
    db.let_time_pass(16)
    return Step(lambda: transitions.unassign([job.pk]), stands(job, "pending", 1_000, 10), survives=True)


def dispatch() -> Step:
    job = factories.at("assigned")
    done = stands(job, "processing", 1_000, 10)
    return Step(lambda: transitions.dispatch([job.pk], factories.HOLDER), done, survives=True)


def learn() -> Step:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    return Step(
        lambda: factories.learn(flight, factories.SUCCESS), lambda: factories.attempt_of(job).ended_at is not None
    )


def doubt() -> Step:
    job = factories.at("processing")
    db.let_time_pass(16)
    doubted = Step(lambda: transitions.doubt([job.pk]), lambda: factories.attempt_of(job).look_at is not None)
    doubted.survives = True
    return doubted


def finish(outcome: Outcome, state: str, posted: int, held: int, *, asked_to_stop: bool = False) -> Callable[[], Step]:
    def prepared() -> Step:
        job = factories.at("assigned")
        flight = factories.dispatch(job)
        if asked_to_stop:
            transitions.cancel(job.pk)
        factories.learn(flight, outcome)
        done = stands(job, state, posted, held)
        return Step(lambda: transitions.finish([job.pk]), done, survives=True)

    return prepared


def cancel(state: str) -> Callable[[], Step]:
    def prepared() -> Step:
        job = factories.at(state)
        return Step(lambda: transitions.cancel(job.pk), stands(job, "cancelled", 1_000, 0))

    return prepared


def expire() -> Step:
    job = factories.at("pending", start_deadline_ms=1_000)
    db.let_time_pass(2)
    return Step(lambda: transitions.expire([job.pk]), stands(job, "failed", 1_000, 0), survives=True)


def replay() -> Step:
    job = factories.at("failed")
    return Step(lambda: transitions.replay(job.pk), stands(job, "pending", 1_000, 10))


def refund() -> Step:
    job = factories.at("completed")
    return Step(
        lambda: ledger.refund(job.pk, job.run, MICRO, f"for {job.pk}"),
        stands(job, "completed", 998, 0),
    )


def grant() -> Step:
    job = factories.at("pending")
    return Step(
        lambda: ledger.grant(job.tenant_id, MICRO, f"invoice of {job.tenant.name}"),
        stands(job, "pending", 1_001, 10),
    )


STEPS: dict[str, Callable[[], Step]] = {
    "submit": submit,
    "promote": promote,
    "assign": assign,
    "unassign": unassign,
    "dispatch": dispatch,
    "learn": learn,
    "doubt": doubt,
    "finish: completed": finish(factories.SUCCESS, "completed", 997, 0),
    "finish: failed": finish(factories.REJECTED, "failed", 1_000, 0),
    "finish: again": finish(factories.AWAY, "pending", 1_000, 10),
    "finish: cancelled": finish(factories.FAILURE, "cancelled", 1_000, 0, asked_to_stop=True),
    "cancel: pending": cancel("pending"),
    "cancel: assigned": cancel("assigned"),
    "expire": expire,
    "replay": replay,
    "refund": refund,
    "grant": grant,
}


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_write_leaves_nothing_and_the_repeat_succeeds(step: str) -> None:
    """And the audit, which is asked after each test, finds no hold without a job that lives."""
    written = faults.written_by(STEPS[step]().verb)
    assert written
    for table, rows in written.items():
        for number in range(1, rows + 1):
            fails_and_is_repeated(STEPS[step](), table, number, "refused")
        # A kill takes the same way back, so the first row of a table stands for its others.
        fails_and_is_repeated(STEPS[step](), table, 1, "killed")
    # At the commit all is written, so one row stands for all.
    fails_and_is_repeated(STEPS[step](), next(iter(written)), 1, "killed at commit")


def fails_and_is_repeated(step: Step, table: str, number: int, fault: Fault) -> None:
    before, told = db.everything(), f"row {number} of {table} {fault}"
    with faults.at_row(table, number, fault):
        # On a connection of its own, as a process that does not outlive it.
        failing = db.in_another_connection(step.verb)
        if step.survives and fault == "refused":
            if failing.result(db.RACE_SECONDS):  # it took the row alone, and that has worked
                assert step.done(), told
                return
        else:
            with pytest.raises(DatabaseError, match=REFUSED if fault == "refused" else "terminat|closed"):
                failing.result(db.RACE_SECONDS)
    after = db.everything()
    may_differ = {*POSTPONED} if step.survives else set()
    assert {name: after[name] for name in before if before[name] != after[name]}.keys() <= may_differ, told
    if step.survives and fault == "refused":
        db.let_time_pass(LATER)
        step.again()
    step.verb()
    assert step.done(), told
