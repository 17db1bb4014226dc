"""max_running is exact: sixteen threads submit at once and as many finish at once, and never are there six of five."""

import threading

import pytest
from django.db import connection

from jobs import transitions
from jobs.models import Job
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 16
JOBS_EACH = 3
CAP = 5
STANDING = """SELECT count(*) FROM jobs_job WHERE tenant_id = %s AND turn IS NOT NULL
              AND state IN ('pending', 'assigned', 'processing')"""


def test_a_cap_of_five_is_never_six(caplog: pytest.LogCaptureFixture) -> None:
    tenant = factories.make_tenant(max_running=CAP)
    job_type = factories.make_job_type(factories.make_pool(sessions=20))
    over, together = threading.Event(), threading.Barrier(THREADS)
    standing_at_once: list[int] = []

    def look() -> None:
        standing_at_once.append(db.value(STANDING, [tenant.pk]))

    all_are_in = threading.Barrier(THREADS, action=look)

    def watch() -> int:
        most = 0
        while not over.is_set():
            most = max(most, db.value(STANDING, [tenant.pk]))
        return most

    def submit_and_work(number: int) -> None:
        for turn in range(JOBS_EACH):
            together.wait(RACE_SECONDS)
            job = factories.submit(tenant, job_type)
            connection.close()
            if turn == 0:  # else nobody promises that the watch ever sees two at once
                all_are_in.wait(RACE_SECONDS)
            while job.state != "completed":
                transitions.assign(job_type.pool_id)
                work(number)
                job.refresh_from_db()
                connection.close()  # as a worker does after each task: sixteen share what the pool has

    def work(number: int) -> None:
        assigned = list(Job.objects.filter(state="assigned").values_list("pk", flat=True)[:2])
        if number % 2:
            assigned.reverse()
        factories.end_all(assigned)

    watched = in_another_connection(watch)
    threads = [in_another_connection(lambda n=number: submit_and_work(n)) for number in range(THREADS)]
    try:
        for thread in threads:
            thread.result(RACE_SECONDS)
    finally:
        over.set()
    assert standing_at_once == [CAP]
    assert watched.result(RACE_SECONDS) <= CAP
    assert Job.objects.filter(state="completed").count() == THREADS * JOBS_EACH
    assert not caplog.records, "no finish met another in a deadlock"
    assert factories.money(tenant) == ((1_000 - 3 * THREADS * JOBS_EACH) * factories.MICRO, 0)


@pytest.mark.parametrize("billing", ["credits", "none"])
def test_sixteen_submits_at_once_give_five_turns(billing: str) -> None:
    tenant = factories.make_tenant(max_running=CAP, billing=billing)
    job_type = factories.make_job_type(factories.make_pool(sessions=20))
    together = threading.Barrier(THREADS)

    def submit() -> None:
        together.wait(RACE_SECONDS)
        factories.submit(tenant, job_type)

    for thread in [in_another_connection(submit) for _ in range(THREADS)]:
        thread.result(RACE_SECONDS)
    assert db.value(STANDING, [tenant.pk]) == CAP
    assert Job.objects.count() == THREADS
