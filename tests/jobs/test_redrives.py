"""A redrive: the dead letters of a filter run again, at its rate, each once, until they are done or it is stopped."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import redrives, sweep, transitions
from jobs.dead_letters import Filter, NoSuchFilter
from jobs.models import DEAD_LETTER, Job, JobMove, JobType, Redrive
from jobs.queries import dead_letters
from tests import db, factories
from tests.factories import FAILURE, MICRO, REJECTED, money

pytestmark = pytest.mark.django_db


def fail(job_type: JobType, count: int, tenant: Any = None, outcome: Any = REJECTED) -> list[Job]:
    """So many dead letters of a type, in the order in which they failed."""
    tenant, jobs = tenant or factories.make_tenant(), []
    for _ in range(count):
        job = factories.submit(tenant, job_type)
        assert transitions.assign(job_type.pool_id) == 1
        jobs.append(factories.end(job, outcome))
    return jobs


def begin(rate: float = 100.0, most: int | None = None, **said: Any) -> Redrive:
    redrive, begun = redrives.begin(Filter(**said), rate, most, why="the provider is back", actor="admin:root")
    assert begun
    return redrive


def drive_to_its_end(redrive: Redrive, seconds_each: float = 1) -> None:
    """As sweeps do it, without the waiting for its rate."""
    for _ in range(20):
        redrives.drive(redrive.pk)
        redrive.refresh_from_db()
        if redrive.state != "running":
            return
        db.let_time_pass(seconds_each)
    raise AssertionError(f"{redrive} does not end: {redrive.replayed} + {redrive.refused}")


def replays(redrive: Redrive) -> list[Any]:
    moves = JobMove.objects.filter(actor=f"redrive:{redrive.pk}", to_state="pending").order_by("id")
    return list(moves.values_list("subject_id", flat=True))


def test_all_that_had_failed_run_again_in_the_order_in_which_they_failed() -> None:
    jobs = fail(factories.make_job_type(), 5)
    redrive = begin()
    drive_to_its_end(redrive)
    assert (redrive.state, redrive.replayed, redrive.refused, redrive.reasons) == ("done", 5, 0, {})
    assert replays(redrive) == [job.pk for job in jobs]
    assert {(job.state, job.run) for job in Job.objects.all()} == {("pending", 2)}
    assert money(jobs[0].tenant)[1] == 50 * MICRO, "each is held anew"


def test_what_fails_again_is_not_taken_up_again() -> None:
    job_type = factories.make_job_type()
    (job,) = fail(job_type, 1)
    redrive = begin()
    assert redrives.drive(redrive.pk) == 1
    assert transitions.assign(job_type.pool_id) == 1
    factories.end(job, REJECTED)
    db.let_time_pass(1)
    drive_to_its_end(redrive)
    job.refresh_from_db()
    assert (job.state, job.run, redrive.replayed) == ("failed", 2, 1)
    later = begin()
    drive_to_its_end(later)
    assert later.replayed == 1, "another redrive means it"


@pytest.mark.parametrize("said", ["code", "type", "pool", "tenant", "since", "until"])
def test_it_concerns_what_its_filter_says(said: str) -> None:
    other = fail(factories.make_job_type(), 1)[0]
    db.let_time_pass(3_600)
    tenant = factories.make_tenant(name="acme")
    wanted = fail(factories.make_job_type(factories.make_pool(name="video"), name="clip"), 1, tenant, FAILURE)[0]
    hour_ago = timezone.now() - timedelta(minutes=30)
    words = {"code": "nsfw", "type": "clip", "pool": "video", "tenant": "acme", "since": hour_ago, "until": hour_ago}
    redrive = begin(**{said: words[said]})
    assert Filter.of_data(redrive.filter) == Filter(**{said: words[said]}), "kept as it was said"
    drive_to_its_end(redrive)
    assert replays(redrive) == [other.pk if said == "until" else wanted.pk]


def test_one_that_cannot_be_paid_stays_a_dead_letter_and_the_next_goes_on() -> None:
    job_type = factories.make_job_type()
    poor = factories.make_tenant(credits=10)
    stays = fail(job_type, 2, poor)
    goes = fail(job_type, 1)[0]
    job_type_closed = factories.make_job_type(name="closed")
    fail(job_type_closed, 1)
    JobType.objects.filter(pk=job_type_closed.pk).update(accepting=False)
    redrive = begin()
    drive_to_its_end(redrive)
    assert (redrive.state, redrive.replayed, redrive.refused) == ("done", 2, 2)
    assert redrive.reasons == {
        "the tenant's credits do not suffice": 1,
        "the job type closed is closed": 1,
    }
    assert replays(redrive) == [stays[0].pk, goes.pk]
    assert Job.objects.filter(DEAD_LETTER).count() == 2
    assert money(poor) == (10 * MICRO, 10 * MICRO)


def test_no_more_than_its_most_and_its_rate() -> None:
    fail(factories.make_job_type(), 6)
    redrive = begin(rate=0.1, most=5)  # one in ten seconds: more than a slow machine takes from one line to the next
    assert redrives.drive(redrive.pk) == 1, "no burst at its begin"
    assert redrives.drive(redrive.pk) == 0
    assert dead_letters.due() == []
    db.let_time_pass(10)
    assert dead_letters.due() == [redrive.pk]
    assert redrives.drive(redrive.pk) == 1
    db.let_time_pass(3_600)
    assert redrives.drive(redrive.pk) == 1, "an hour without a sweep is not made up for at once"
    drive_to_its_end(redrive, 10)
    assert (redrive.state, redrive.replayed) == ("done", 5)
    assert Job.objects.filter(DEAD_LETTER).count() == 1


def test_a_stopped_one_replays_nothing_more() -> None:
    fail(factories.make_job_type(), 3)
    redrive = begin(rate=0.1)
    redrives.drive(redrive.pk)
    assert redrives.stop(redrive.pk, "admin:anna") is True
    assert redrives.stop(redrive.pk, "admin:root") is False
    db.let_time_pass(60)
    before = db.everything()
    assert redrives.drive(redrive.pk) == 0
    sweep._run([step for step in sweep.FLOW if step.task == "redrive"])
    assert db.everything() == before
    redrive.refresh_from_db()
    assert (redrive.state, redrive.ended_by, redrive.replayed) == ("stopped", "admin:anna", 1)
    with db.refused("Invalid transition"):
        Redrive.objects.filter(pk=redrive.pk).update(state="running")


def test_what_was_put_aside_or_moved_on_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand, aside, goes = fail(factories.make_job_type(), 3)
    redrive, read = begin(), dead_letters.next_of

    def read_and_act(*terms: Any) -> Any:
        letters = read(*terms)
        transitions.replay(by_hand.pk)
        transitions.dismiss([aside.pk])
        return letters

    monkeypatch.setattr(dead_letters, "next_of", read_and_act)
    assert redrives.drive(redrive.pk) == 1
    redrive.refresh_from_db()
    assert (replays(redrive), redrive.refused) == ([goes.pk], 2)
    assert redrive.reasons == {"it had moved on by then": 2}


def test_the_sweep_drives_it_to_its_end() -> None:
    fail(factories.make_job_type(), 3)
    redrive = begin()
    for _ in range(5):
        db.let_time_pass(1)
        sweep._run([step for step in sweep.FLOW if step.task == "redrive"])
    redrive.refresh_from_db()
    assert (redrive.state, redrive.replayed) == ("done", 3)


def test_a_rare_code_among_many_letters_is_found_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read and does not fit is passed, each question is as long as a page, and each sweep has its time."""
    job_type = factories.make_job_type()
    fail(job_type, 5)
    rare = fail(job_type, 1, outcome=FAILURE)[0]
    page = dead_letters._NEXT.replace(f"LIMIT {dead_letters.MOST_READ}", "LIMIT 2")
    monkeypatch.setattr(dead_letters, "_NEXT", page)
    monkeypatch.setattr(dead_letters, "MOST_READ", 2)
    redrive = begin(code="nsfw")
    with monkeypatch.context() as hurried:
        hurried.setattr(redrives, "LONGEST_SECONDS", 0.0)
        assert redrives.drive(redrive.pk) == 0
    redrive.refresh_from_db()
    assert (redrive.state, redrive.seen_at is not None) == ("running", True)
    assert redrives.drive(redrive.pk) == 1, "all other pages at once"
    assert replays(redrive) == [rare.pk]


@pytest.mark.parametrize("rate", [0, -1, 0.0009, 101, float("nan")])
def test_a_rate_out_of_bounds_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate: it is at least"):
        begin(rate=rate)
    with db.refused("redrive_rate_in_bounds"):
        Redrive.objects.create(rate=rate, why="", actor="")


@pytest.mark.parametrize("most", [0, 1_000_000_001])
def test_a_most_out_of_bounds_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match="most: at least one job"):
        begin(most=most)
    with db.refused("redrive_most_in_bounds"):
        Redrive.objects.create(rate=1, most=most, why="", actor="")


def test_a_filter_names_what_there_is() -> None:
    job_type = factories.make_job_type(name="clip")
    wanted = Filter.of_words({"type": "clip", "pool": job_type.pool.name, "since": "2h", "until": "2026-01-02 03:04"})
    assert (wanted.type, wanted.code) == ("clip", None)
    assert wanted.since is not None
    assert timedelta(hours=1.9) < timezone.now() - wanted.since < timedelta(hours=2.1)
    assert str(wanted.until) == "2026-01-02 03:04:00+00:00"
    assert Filter.of_data(wanted.as_data()) == wanted
    for said, why in [
        ({"type": "clap"}, "there is no type named 'clap'"),
        ({"tenant": "x"}, "there is no tenant"),
        ({"since": "yesterday"}, "since: 'yesterday' is no time"),
        ({"until": "2026-13-45"}, "until: '2026-13-45' is no time"),
        ({"since": "99999999999d"}, "since: '99999999999d' is no time"),
        ({"since": "9" * 400 + "d"}, "is no time"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "is no time"),
    ]:
        with pytest.raises(NoSuchFilter, match=why):
            Filter.of_words(said)


@pytest.mark.django_db(transaction=True)
def test_a_process_that_dies_between_a_replay_and_its_count_repeats_and_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = fail(factories.make_job_type(), 3)
    redrive = begin()

    class Killed(BaseException):
        pass

    def die(*_terms: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "replayed", die)
        with pytest.raises(Killed):
            redrives.drive(redrive.pk)
    assert Job.objects.filter(DEAD_LETTER).count() == 3, "the replay went with its count"
    drive_to_its_end(redrive)
    assert (redrive.replayed, replays(redrive)) == (3, [job.pk for job in jobs])
