"""What the database refuses of jobs, sessions and attempts, also from psql and the ORM."""

import pytest
from django.db import DatabaseError, transaction

from jobs.models import Attempt, Evidence, Job, JobMove
from jobs.states import ATTEMPT_PHASES, JOB, PHASE_MOVES
from pool.models import Resource, ResourceMove
from pool.states import RESOURCE
from statemachine.machine import Machine
from tests import db, factories

pytestmark = pytest.mark.django_db

# What else a state wants of its row, so that only the guard of the move can refuse it.
ALSO = {
    **dict.fromkeys(JOB.terminal, ", finished_at = COALESCE(finished_at, now())"),
    **{state: ", finished_at = NULL" for state in JOB.states if state not in JOB.terminal},
    "cooldown": ", available_at = now()",
}


def illegal(machine: Machine) -> list[tuple[str, str]]:
    every = {(source, target) for source in machine.states for target in machine.states if source != target}
    return sorted(every - set(machine.moves))


@pytest.mark.parametrize(("source", "target"), illegal(JOB))
def test_an_illegal_move_of_a_job_is_refused(source: str, target: str) -> None:
    job = factories.at(source)
    before = db.everything()
    with db.refused("Invalid transition"):
        db.execute(f"UPDATE jobs_job SET state = %s {ALSO[target]} WHERE id = %s", [target, job.pk])
    assert db.everything() == before


def session_in(state: str) -> Resource:
    """A session whose job stands where sessions are in `state`."""
    cooldown_ms = 60_000 if state == "cooldown" else 0
    job_type = factories.make_job_type(factories.make_pool(cooldown_ms=cooldown_ms))
    job = factories.at({"reserved": "assigned", "busy": "processing"}.get(state, "completed"), job_type)
    session = factories.session_of(job)
    if state == "offline":
        RESOURCE.take("disable", [{"id": session.pk}])
        session.refresh_from_db()
    assert session.state == state
    return session


@pytest.mark.parametrize(("source", "target"), illegal(RESOURCE))
def test_an_illegal_move_of_a_session_is_refused(source: str, target: str) -> None:
    session = session_in(source)
    before = db.everything()
    with db.refused("Invalid transition"):
        db.execute(f"UPDATE pool_resource SET state = %s {ALSO.get(target, '')} WHERE id = %s", [target, session.pk])
    assert db.everything() == before


def test_the_orm_is_refused_like_psql() -> None:
    job = factories.at("pending")
    job.state, session = "processing", Resource.objects.get()
    with db.refused("Invalid transition"):
        job.save(update_fields=["state"])
    with db.refused("Invalid transition"):
        Job.objects.filter(pk=job.pk).update(state="processing")
    session.state = "busy"
    with db.refused("Invalid transition"):
        Resource.objects.bulk_update([session], ["state"])
    assert not JobMove.objects.filter(to_state="processing").exists()
    assert not ResourceMove.objects.filter(to_state="busy").exists()


@pytest.mark.parametrize("state", [state for state in JOB.states if state != JOB.first])
def test_a_job_begins_pending(state: str) -> None:
    job = Job.objects.get(pk=factories.at("pending").pk)
    with db.refused("Cannot insert"):
        job.pk, job.idempotency_key, job.state = "00000000-0000-7000-8000-000000000001", "other", state
        job.save(force_insert=True)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("state", [state for state in RESOURCE.states if state != RESOURCE.first])
def test_a_session_begins_available(state: str) -> None:
    session = session_in("available")
    with db.refused("Cannot insert"):
        Resource.objects.create(pool=session.pool, account=session.account, number=9, state=state)
    assert Resource.objects.count() == 1


def test_a_terminal_job_has_an_end_and_no_other_has() -> None:
    job = factories.at("processing")
    with db.refused("job_finished_iff_terminal"):
        db.execute("UPDATE jobs_job SET state = 'completed' WHERE id = %s", [job.pk])
    with db.refused("job_finished_iff_terminal"):
        db.execute("UPDATE jobs_job SET finished_at = now() WHERE id = %s", [job.pk])


def test_a_cooldown_has_an_end() -> None:
    with db.refused("resource_cooldown_has_an_end"):
        db.execute("UPDATE pool_resource SET state = 'cooldown' WHERE id = %s", [session_in("busy").pk])


def phase_moves() -> list[tuple[str, str]]:
    every = {(source, target) for source in ATTEMPT_PHASES for target in ATTEMPT_PHASES if source != target}
    return sorted(every - set(PHASE_MOVES))


@pytest.mark.parametrize(("source", "target"), phase_moves())
def test_the_phase_of_an_attempt_only_grows(source: str, target: str) -> None:
    job = factories.at({"intended": "assigned", "ended": "completed"}.get(source, "processing"))
    if source == "accepted":
        db.execute("UPDATE jobs_attempt SET phase = 'accepted', lease_until = NULL, look_at = now()")
    ended = "now()" if target == "ended" else "NULL"
    with db.refused("Invalid transition"):
        db.execute(f"UPDATE jobs_attempt SET phase = %s, ended_at = {ended}", [target])
    assert factories.attempt_of(job).phase == source


def test_an_attempt_that_ended_has_a_time() -> None:
    factories.at("processing")
    with db.refused("attempt_ended_has_a_time"):
        db.execute("UPDATE jobs_attempt SET phase = 'ended'")
    with db.refused("attempt_ended_has_a_time"):
        db.execute("UPDATE jobs_attempt SET ended_at = now()")


@pytest.mark.parametrize("state", ["assigned", "processing"])
def test_a_second_open_attempt_on_a_session_is_refused(state: str) -> None:
    job = factories.at(state)
    taken = factories.attempt_of(job)
    other = factories.submit(job.tenant, job.type)
    with pytest.raises(DatabaseError, match="one_open_attempt_per_resource"), transaction.atomic():
        open_attempt(other, taken.resource)
    assert Attempt.objects.count() == 1


def test_a_session_is_open_to_another_attempt_once_the_first_has_ended() -> None:
    job = factories.at("completed")
    other = factories.submit(job.tenant, job.type)
    with transaction.atomic():
        open_attempt(other, factories.session_of(job))
        transaction.set_rollback(True)
    assert Attempt.objects.count() == 1


def test_a_job_has_one_open_attempt() -> None:
    job = factories.at("processing", factories.make_job_type(factories.make_pool(sessions=2)))
    with db.refused("one_open_attempt_per_job"):
        open_attempt(job, Resource.objects.get(state="available"))


def open_attempt(job: Job, session: Resource) -> Attempt:
    return Attempt.objects.create(
        job=job, resource=session, account=session.account, number=7, dispatch_key=f"other.{job.pk}", fence=99
    )


@pytest.mark.parametrize("model", [JobMove, ResourceMove, Evidence])
def test_what_was_recorded_stays(model: type[JobMove]) -> None:
    factories.at("completed")
    row = model.objects.latest("pk")
    before = db.everything()
    for sql in (f"UPDATE {row._meta.db_table} SET at = now()", f"DELETE FROM {row._meta.db_table}"):
        with db.refused("Cannot update or delete"):
            db.execute(sql)
    with db.refused("Cannot update or delete"):
        row.delete()
    db.execute("SET CONSTRAINTS ALL IMMEDIATE")  # with a check still due, TRUNCATE fails for that reason alone
    with db.refused("Cannot truncate"):
        db.execute(f"TRUNCATE {row._meta.db_table}")
    assert db.everything() == before
