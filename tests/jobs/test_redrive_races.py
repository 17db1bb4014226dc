"""A redrive beside others: many who drive it, one who stops it, and one who holds what it would replay."""

import time

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import redrives
from jobs.models import Job
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection
from tests.jobs.test_redrives import begin, drive_to_its_end, fail, replays

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_that_somebody_holds_is_passed_and_told() -> None:
    held, goes = fail(factories.make_job_type(), 2)
    redrive = begin()
    with transaction.atomic():
        db.execute("SELECT 1 FROM jobs_job WHERE id = %s FOR UPDATE", [held.pk])
        assert in_another_connection(lambda: redrives.drive(redrive.pk)).result(RACE_SECONDS) <= 1
    drive_to_its_end(redrive)
    assert (replays(redrive), redrive.reasons) == ([goes.pk], {"somebody else held it": 1})


def test_many_processes_together_keep_its_rate_and_take_each_once() -> None:
    jobs = fail(factories.make_job_type(), 30)
    redrive = begin(rate=50)
    deadline = time.monotonic() + RACE_SECONDS

    def drive_for_a_while() -> int:
        done = 0
        while len(replays(redrive)) < 20:  # nobody promises how soon a machine does them, only how soon it may
            assert time.monotonic() < deadline
            done += redrives.drive(redrive.pk)
        return done

    drivers = [in_another_connection(drive_for_a_while) for _ in range(4)]
    done = sum(driver.result(RACE_SECONDS) for driver in drivers)
    redrive.refresh_from_db()
    lasted = (timezone.now() - redrive.began_at).total_seconds()
    assert done == redrive.replayed == len(replays(redrive)) == len(set(replays(redrive)))
    assert 20 <= done <= 1 + 50 * lasted
    assert replays(redrive) == [job.pk for job in jobs][:done], "in order, though by many"
    assert {job.run for job in Job.objects.all()} <= {1, 2}


def test_stopping_waits_for_the_replay_under_way_and_none_follows_once_it_returned() -> None:
    fail(factories.make_job_type(), 20)
    redrive = begin()

    def stop() -> tuple[bool, int]:
        return redrives.stop(redrive.pk, "admin:root"), len(replays(redrive))

    with transaction.atomic():
        db.execute("SELECT 1 FROM credits_balance ORDER BY 1 FOR UPDATE")  # its first replay waits here
        driver = in_another_connection(lambda: redrives.drive(redrive.pk))
        db.wait_until_blocked_by_us()
        stopper = in_another_connection(stop)
        db.until_waiting(2)
    # Postgres may let the driver lock the redrive again before it wakes who waits: the first is not always the only one,
    # and nothing but the rate says how many there may be.
    stopped, by_then = stopper.result(RACE_SECONDS)
    assert driver.result(RACE_SECONDS) == by_then == len(replays(redrive))
    assert stopped or by_then == 20
    redrive.refresh_from_db()
    assert (redrive.state, redrive.replayed) == ("stopped" if stopped else "done", by_then)
    assert redrives.drive(redrive.pk) == 0
