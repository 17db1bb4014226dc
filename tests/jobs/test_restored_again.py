"""What would run by itself after a restore though the lost commits had run it, and what is asked for a second time."""

import pytest
from django.db import transaction

from jobs import redrives, transitions
from jobs.models import DEAD_LETTER, Job, Redrive
from jobs.queries import dead_letters
from pool.models import Resource
from tests import factories
from tests.db import RACE_SECONDS, in_another_connection, let_time_pass, value, wait_until_blocked_by_us
from tests.jobs.test_redrives import begin, fail
from tests.jobs.test_restoring import over, restored

pytestmark = pytest.mark.django_db


def test_a_redrive_that_ran_is_ended_since_the_lost_commits_had_gone_on_with_it() -> None:
    fail(factories.make_job_type(), 3)
    ended, running = begin(rate=0.1), begin(rate=0.1)
    redrives.stop(ended.pk, "admin:anna")
    assert redrives.drive(running.pk) == 1
    assert restored().redrives == 1
    let_time_pass(60)
    assert redrives.drive_due() == 0
    told = [(redrive.state, redrive.ended_by) for redrive in Redrive.objects.order_by("id")]
    assert told == [("stopped", "admin:anna"), ("stopped", "restored")]
    assert Job.objects.filter(DEAD_LETTER).count() == 2
    assert restored().redrives == 0


def test_where_nothing_was_lost_a_redrive_goes_on() -> None:
    fail(factories.make_job_type(), 1)
    redrive = begin()
    assert restored(nothing_lost=True).redrives == 0
    assert redrives.drive(redrive.pk) == 1


@pytest.mark.django_db(transaction=True)
def test_a_replay_that_is_under_way_is_waited_for_and_is_the_last() -> None:
    jobs = fail(factories.make_job_type(), 2)
    redrive = begin(rate=1)
    with transaction.atomic():
        assert dead_letters.lock(redrive.pk) is not None
        closing = in_another_connection(restored)
        wait_until_blocked_by_us()
        transitions.replay(jobs[0].pk)
    closed = closing.result(RACE_SECONDS)
    assert (closed.redrives, closed.suspected) == (1, 1), "what it replayed is suspected with the others"


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_versions_of_what_may_have_been_replayed_go_on_beyond_all_that_were_told(state: str) -> None:
    job = factories.at(state)
    told = job.version
    with transaction.atomic():  # and this is lost
        told += 2 * int(transitions.replay(job.pk).version > told)
        transaction.set_rollback(True)
    restored()
    job.refresh_from_db()
    assert (job.state, job.version > told) == (state, True)


def test_a_second_restore_of_the_same_backup_lands_beyond_the_first() -> None:
    job = factories.at("processing")

    def numbers() -> tuple[int, int, int]:
        restored()
        job.refresh_from_db()
        return Resource.objects.get().fence, job.version, value("SELECT last_value FROM jobs_attempt_id_seq")

    last = value("SELECT last_value FROM jobs_attempt_id_seq")
    with transaction.atomic():
        first = numbers()
        transaction.set_rollback(True)
    value("SELECT setval('jobs_attempt_id_seq', %s)", [last])
    assert all(later > earlier for later, earlier in zip(numbers(), first, strict=True))


def test_a_replay_that_is_asked_for_again_is_the_lost_one_to_its_upstream() -> None:
    job = factories.at("failed")

    def key_of_a_replay() -> str:
        transitions.replay(job.pk)
        assert transitions.assign(job.pool_id) == 1
        return str(factories.dispatch(job).row["dispatch_key"])

    with transaction.atomic():
        lost = key_of_a_replay()
        transaction.set_rollback(True)
    restored()
    assert over(job.pool)
    assert key_of_a_replay() == lost
