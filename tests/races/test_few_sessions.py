"""Many who claim at once what there is too little of, with a claim that is made slow so that they meet within it."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError

from jobs import transitions
from jobs.models import Attempt, Job
from pool.models import Resource
from tests import db, factories
from tests.db import RACE_SECONDS, in_another_connection
from tests.factories import HOLDER, SUCCESS

pytestmark = pytest.mark.django_db(transaction=True)
CLAIMERS, JOBS = 8, 24
SLOW_SECONDS, LONG_SECONDS, CALL_SECONDS = 0.002, 5, 0.005


@contextmanager
def slow_claim(seconds: float) -> Iterator[None]:
    """Each attempt takes so long to open, in the middle of the transaction that claims."""
    db.execute(
        f"""CREATE FUNCTION slow_claim() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$;
            CREATE TRIGGER slow_claim BEFORE INSERT ON jobs_attempt FOR EACH ROW EXECUTE FUNCTION slow_claim()"""
    )
    try:
        yield
    finally:
        db.execute("DROP TRIGGER slow_claim ON jobs_attempt; DROP FUNCTION slow_claim()")


class Upstream:
    """Counts the calls that are under way."""

    def __init__(self) -> None:
        self.now = self.most = self.calls = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self.now, self.calls = self.now + 1, self.calls + 1
            self.most = max(self.most, self.now)

    def end(self) -> None:
        with self._lock:
            self.now -= 1


def test_one_session_is_never_used_by_two_whoever_claims() -> None:
    job_type = factories.make_job_type(factories.make_pool(window=JOBS))
    factories.submit_many(factories.make_tenant(), job_type, JOBS)
    upstream, end = Upstream(), time.monotonic() + RACE_SECONDS

    def work() -> None:
        while Job.objects.exclude(state="completed").exists() and time.monotonic() < end:
            transitions.assign(job_type.pool_id)
            mine = transitions.dispatch(list(Job.objects.filter(state="assigned").values_list("pk", flat=True)), HOLDER)
            for flight in mine:
                upstream.begin()
                time.sleep(CALL_SECONDS)
                upstream.end()
                factories.learn(flight, SUCCESS)
                transitions.finish([flight.job_id])

    with slow_claim(SLOW_SECONDS):
        workers: list[Future[Any]] = [in_another_connection(work) for _ in range(CLAIMERS)]
        for worker in workers:
            worker.result(RACE_SECONDS)
    assert (upstream.calls, upstream.most) == (JOBS, 1)


def test_those_who_claim_at_once_take_a_session_each_and_none_waits_for_anothers() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=10, window=10))
    factories.submit_many(factories.make_tenant(), job_type, 10)
    barrier = threading.Barrier(CLAIMERS)

    def claim() -> int:
        barrier.wait(RACE_SECONDS)
        return transitions.assign(job_type.pool_id)

    claims = [in_another_connection(claim) for _ in range(CLAIMERS)]
    taken = sum(each.result(RACE_SECONDS) for each in claims)
    assert taken + transitions.assign(job_type.pool_id) == 10  # at the latest the second period has them all
    assert len(set(Attempt.objects.values_list("resource", flat=True))) == 10


def test_a_claim_whose_connection_is_cut_took_nothing_and_the_next_takes_what_there_is() -> None:
    job_type = factories.make_job_type(factories.make_pool(sessions=3, window=5))
    factories.submit_many(factories.make_tenant(), job_type, 5)

    def claim() -> int:
        return transitions.assign(job_type.pool_id)

    with slow_claim(LONG_SECONDS):
        cut = in_another_connection(claim)
        deadline = time.monotonic() + RACE_SECONDS
        asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while not (sleeping := db.rows(asleep)):
            assert time.monotonic() < deadline
        db.rows("SELECT pg_terminate_backend(%s)", [sleeping[0][0]])
        assert isinstance(cut.exception(RACE_SECONDS), DatabaseError)
    assert (Attempt.objects.count(), Resource.objects.filter(state="available").count()) == (0, 3)
    assert claim() == 3
    assert claim() == 0, "what the answer was lost of is not taken a second time"
    assert Attempt.objects.filter(ended_at=None).count() == 3
