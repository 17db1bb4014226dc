"""Each move leaves one row that says what, why and who; and how `take` moves a set along an arrow."""

import pytest
from django.db import transaction

from jobs import transitions
from jobs.models import Job, JobMove
from jobs.states import JOB
from pool import transitions as sessions
from pool.models import Resource, ResourceMove
from pool.states import RESOURCE
from statemachine.actors import acting_as, current_actor
from tests import db, factories

pytestmark = pytest.mark.django_db


def moves_of(job: Job) -> list[tuple[str, str, str]]:
    return list(JobMove.objects.filter(subject_id=job.pk).order_by("id").values_list("from_state", "to_state", "cause"))


def test_the_life_of_a_job_can_be_read_from_its_moves() -> None:
    with acting_as("tenant:acme"):
        job = factories.at("completed")
    assert moves_of(job) == [
        ("", "pending", "submit"),
        ("pending", "assigned", "assign"),
        ("assigned", "processing", "dispatch"),
        ("processing", "completed", "complete"),
    ]
    assert set(JobMove.objects.values_list("actor", flat=True)) == {"tenant:acme"}
    times = [at for (at,) in JobMove.objects.order_by("id").values_list("at")]
    assert times == sorted(times)


def test_the_life_of_a_session_can_be_read_from_its_moves() -> None:
    job = factories.at("completed", factories.make_job_type(factories.make_pool(cooldown_ms=1_000)))
    db.let_time_pass(2)
    assert sessions.release([factories.session_of(job).pk]) == 1
    assert list(ResourceMove.objects.order_by("id").values_list("from_state", "to_state")) == [
        ("", "available"),
        ("available", "reserved"),
        ("reserved", "busy"),
        ("busy", "cooldown"),
        ("cooldown", "available"),
    ]


def test_a_set_leaves_a_row_for_each_that_moved() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=7))
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(7)]
    with acting_as("worker:a"):
        assert transitions.assign(job_type.pool_id) == 7
    transitions.cancel(jobs[0].pk)
    with acting_as("worker:b"):
        flights = transitions.dispatch([job.pk for job in jobs], "worker:b")
    assert {flight.job_id for flight in flights} == {job.pk for job in jobs[1:]}
    assert JobMove.objects.filter(to_state="assigned", actor="worker:a", cause="assign").count() == 7
    assert JobMove.objects.filter(to_state="processing", actor="worker:b", cause="dispatch").count() == 6
    assert ResourceMove.objects.filter(to_state="reserved", actor="worker:a", cause="assign").count() == 7
    assert ResourceMove.objects.filter(to_state="busy", actor="worker:b").count() == 6
    assert JobMove.objects.count() == 7 + 7 + 6 + 1


def test_a_move_made_by_hand_is_recorded_with_its_user() -> None:
    job = factories.at("assigned")
    db.execute("SELECT set_config('berth.cause', '', true), set_config('berth.actor', '', true)")
    db.execute("UPDATE jobs_job SET state = 'pending' WHERE id = %s", [job.pk])
    made = JobMove.objects.latest("id")
    assert (made.from_state, made.to_state, made.cause) == ("assigned", "pending", "sql")
    assert made.actor == db.value("SELECT session_user")
    db.execute("UPDATE jobs_job SET state = 'assigned' WHERE id = %s", [job.pk])  # as its attempt says


def test_a_write_that_moves_nothing_leaves_no_row() -> None:
    job = factories.at("processing")
    before = JobMove.objects.count()
    Job.objects.filter(pk=job.pk).update(flagged="look", state="processing")
    assert JobMove.objects.count() == before


def test_who_acts_is_known_and_forgotten_again() -> None:
    usual = current_actor()
    with acting_as("admin:root"):
        assert current_actor() == "admin:root"
    assert current_actor() == usual
    assert usual.startswith(("process:", "worker:"))


def test_taking_an_arrow_moves_those_that_stand_where_it_begins() -> None:
    pool = factories.make_pool(sessions=3)
    first, second, third = Resource.objects.filter(pool=pool).order_by("id")
    assert [m.id for m in RESOURCE.take("disable", [{"id": second.pk, "reason": "banned"}], cause="ban")] == [second.pk]
    moved = RESOURCE.take("disable", [{"id": s.pk, "reason": "all"} for s in (third, second, first)])
    assert {m.id for m in moved} == {first.pk, third.pk}
    assert {m.state for m in moved} == {"offline"}
    assert all(m.row["pool_id"] == pool.pk for m in moved)
    second.refresh_from_db()
    assert (second.reason, second.version) == ("banned", 1)
    assert ResourceMove.objects.get(subject_id=second.pk, to_state="offline").cause == "ban"
    assert RESOURCE.take("disable", []) == []


def test_a_fence_that_has_moved_on_moves_nothing() -> None:
    job = factories.at("assigned")
    session = factories.session_of(job)
    before = db.everything()
    with transaction.atomic():
        assert RESOURCE.take("use", [{"id": session.pk, "fence": session.fence - 1}], match=["fence"]) == []
    assert db.everything() == before


def test_a_further_guard_keeps_a_row_where_it_is() -> None:
    job = factories.at("pending")
    before = db.everything()
    assert JOB.take("cancel", [{"id": job.pk}], columns={"finished_at": "now()"}, where="t.priority > 5") == []
    assert db.everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_move_is_announced_after_the_commit_and_never_after_a_rollback() -> None:
    from pool.signals import resource_moved

    session = Resource.objects.get(pool=factories.make_pool())
    told: list[tuple[str, list[int], str]] = []

    def listen(verb: str, moved: list, **_kwargs: object) -> None:  # type: ignore[type-arg]
        state_seen = db.value("SELECT state FROM pool_resource WHERE id = %s", [session.pk])
        told.append((verb, [m.id for m in moved], state_seen))

    resource_moved.connect(listen)
    try:
        with transaction.atomic():
            RESOURCE.take("disable", [{"id": session.pk}])
            assert told == []
            transaction.set_rollback(True)
        assert told == []
        with transaction.atomic():
            RESOURCE.take("disable", [{"id": session.pk}])
        RESOURCE.take("disable", [{"id": session.pk}])
    finally:
        resource_moved.disconnect(listen)
    assert told == [("disable", [session.pk], "offline")]
