"""What an operator wants of sessions: drained, disabled, in quarantine, enabled. What runs is never touched."""

import pytest

from jobs import transitions
from jobs.models import Job
from pool import transitions as sessions
from pool.models import Resource, ResourceMove
from statemachine.actors import acting_as
from tests import db, factories
from tests.factories import BUSY, SUCCESS, session_of

pytestmark = pytest.mark.django_db


def running() -> Job:
    """A job on the only session of its pool, which another job waits for."""
    job_type = factories.make_job_type()
    job = factories.at("processing", job_type)
    factories.submit(job.tenant, job_type)
    return job


def end(job: Job) -> Resource:
    flight = factories.Flight(
        *Job.objects.filter(pk=job.pk)
        .values_list("tries_made", "tries_made__fence", "pk", "tries_made__resource")
        .get(),
        row=_row(job),
    )
    factories.learn(flight, SUCCESS)
    transitions.finish([job.pk])
    return session_of(job)


def _row(job: Job) -> dict[str, object]:
    from jobs.queries import flights

    return flights.opened([factories.attempt_of(job).pk])[0].row


def test_a_drained_session_ends_its_job_and_begins_none() -> None:
    job = running()
    assert sessions.drain([session_of(job).pk], "planned") == 1
    assert sessions.drain([session_of(job).pk], "planned") == 0
    assert session_of(job).state == "busy"
    assert end(job).state == "available"
    assert transitions.assign(job.pool_id) == 0
    assert sessions.enable([session_of(job).pk]) == 1
    assert transitions.assign(job.pool_id) == 1


def test_a_free_session_is_disabled_at_once_by_whom_and_why() -> None:
    session = Resource.objects.get(pool=factories.make_pool())
    with acting_as("admin:root"):
        assert sessions.disable([session.pk], "banned by the provider") == 1
    session.refresh_from_db()
    assert (session.state, session.reason, session.disabled) == ("offline", "banned by the provider", True)
    move = ResourceMove.objects.latest("id")
    assert (move.to_state, move.actor) == ("offline", "admin:root")


def test_a_running_session_is_offline_when_its_job_has_ended() -> None:
    job = running()
    sessions.disable([session_of(job).pk], "banned")
    assert session_of(job).state == "busy"
    assert end(job).state == "offline"
    assert transitions.assign(job.pool_id) == 0


def test_an_abandoned_session_goes_where_the_operator_wants_it() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=2))
    tenant = factories.make_tenant()
    jobs = [factories.submit(tenant, job_type) for _ in range(2)]
    assert transitions.assign(job_type.pool_id) == 2
    sessions.disable([session_of(jobs[0]).pk], "banned")
    sessions.quarantine([session_of(jobs[1]).pk], 60, "odd answers")
    assert [session_of(job).state for job in jobs] == ["reserved", "reserved"]
    for job in jobs:
        transitions.cancel(job.pk)
    assert [session_of(job).state for job in jobs] == ["offline", "cooldown"]


def test_a_quarantined_session_rests_until_its_time() -> None:
    session = Resource.objects.get(pool=factories.make_pool())
    assert sessions.quarantine([session.pk], 60, "odd answers") == 1
    session.refresh_from_db()
    assert (session.state, session.reason) == ("cooldown", "odd answers")
    assert sessions.release([session.pk]) == 0
    db.let_time_pass(61)
    assert sessions.release([session.pk]) == 1
    session.refresh_from_db()
    assert (session.state, session.rest_until, session.reason) == ("available", None, "")


def test_a_running_session_rests_when_its_job_has_ended() -> None:
    job = running()
    sessions.quarantine([session_of(job).pk], 60, "odd answers")
    assert session_of(job).state == "busy"
    session = end(job)
    assert (session.state, session.available_at) == ("cooldown", session.rest_until)


def test_a_quarantine_is_never_shortened_by_another_nor_by_a_rest() -> None:
    job = running()
    session = session_of(job)
    assert sessions.quarantine([session.pk], 600, "first") == 1
    assert sessions.quarantine([session.pk], 60, "second") == 0
    factories.learn(factories.Flight(factories.attempt_of(job).pk, session.fence, job.pk, session.pk, _row(job)), BUSY)
    session.refresh_from_db()
    assert (session.state, session.available_at, session.note) == ("cooldown", session.rest_until, "first")


def test_a_rest_that_the_upstream_asked_for_is_not_cut_short_by_an_operator() -> None:
    job = factories.end(factories.at("assigned"), BUSY)
    session = session_of(job)
    sessions.quarantine([session.pk], 1, "short")
    assert sessions.enable([session.pk]) == 1
    session.refresh_from_db()
    assert (session.state, session.rest_until) == ("cooldown", None)


def test_an_operator_ends_a_quarantine() -> None:
    session = Resource.objects.get(pool=factories.make_pool())
    sessions.quarantine([session.pk], 600, "odd answers")
    assert sessions.enable([session.pk]) == 1
    session.refresh_from_db()
    assert (session.state, session.available_at, session.note) == ("available", None, "")
    assert sessions.enable([session.pk]) == 0


def test_a_disabled_session_is_put_back_and_gets_the_next_job(
    django_capture_on_commit_callbacks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running()
    session = session_of(job)
    sessions.disable([session.pk], "banned")
    end(job)
    woken: list[str] = []
    monkeypatch.setattr("jobs.wakes.wake", lambda task, *_args, **_kwargs: woken.append(task))
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        assert sessions.enable([session.pk]) == 1
    assert woken == ["assign"]
    assert transitions.assign(job.pool_id) == 1


@pytest.mark.parametrize("seconds", [0, -1, 31 * 24 * 3600, float("nan")])
def test_a_quarantine_has_an_end(seconds: float) -> None:
    with pytest.raises(ValueError, match="a quarantine lasts"):
        sessions.quarantine([1], seconds, "")


def test_no_more_sessions_are_opened_than_the_account_has() -> None:
    account = factories.make_pool(sessions=4).accounts.get()
    account.sessions = 2
    account.save(update_fields=["sessions"])
    ids = list(account.resources.values_list("pk", flat=True))
    sessions.drain(ids, "planned")
    assert sessions.enable(ids) == 2
    assert list(account.resources.order_by("number").values_list("accepting", flat=True)) == [True, True, False, False]


def test_a_disabled_session_is_not_quarantined_and_keeps_its_note() -> None:
    session = Resource.objects.get(pool=factories.make_pool())
    sessions.disable([session.pk], "banned")
    assert sessions.quarantine([session.pk], 60, "odd answers") == 0
    session.refresh_from_db()
    assert (session.state, session.note, session.rest_until) == ("offline", "banned", None)
