"""Two beats that fire at the same moment, again and again: each task they ask for is done by state or under a key."""

import threading
from collections.abc import Callable

import pytest

from broker_project.celery import app
from credits.allowances import add
from jobs.models import Attempt
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection
from tests.factories import MICRO

pytestmark = pytest.mark.django_db(transaction=True)
BEATS, TICKS = 2, 3


def scheduled() -> list[Callable[[], None]]:
    app.loader.import_default_modules()
    return [app.tasks[entry["task"]] for entry in app.conf.beat_schedule.values()]


def test_what_two_beats_ask_for_at_once_is_done_once() -> None:
    tenant, job_type = factories.make_tenant(), factories.make_job_type()
    add(tenant.pk, MICRO, "day", category="promo", priority=20, lifetime_seconds=0, after=0)
    factories.submit(tenant, job_type, start_deadline_ms=600_000)
    expiring = factories.submit(tenant, job_type, start_deadline_ms=1)
    db.rows("SELECT pg_sleep(0.002)")
    assert len(scheduled()) > 1
    for task in scheduled():
        barrier = threading.Barrier(BEATS)

        def fire(task: Callable[[], None] = task, barrier: threading.Barrier = barrier) -> None:
            for _ in range(TICKS):
                barrier.wait(RACE_SECONDS)
                task()

        for beat in [in_another_connection(fire) for _ in range(BEATS)]:
            beat.result(RACE_SECONDS)
    expiring.refresh_from_db()
    assert (expiring.state, Attempt.objects.count()) == ("failed", 1)
    posted, held = factories.money(tenant)
    assert posted in (1_001 * MICRO, 1_002 * MICRO), "once in a day, of which one may have begun meanwhile"
    assert held == 10 * MICRO
