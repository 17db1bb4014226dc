"""`restored` beside others that write: who comes first is seen, and nobody slips between."""

import threading

import pytest
from django.db import connection, transaction

from jobs import restoring, transitions
from jobs.findings import Finding
from jobs.models import Attempt, Job
from statemachine.patience import patient
from tests import factories
from tests.db import RACE_SECONDS, execute, in_another_connection, wait_until_blocked_by_us
from tests.factories import HOLDER, attempt_of
from tests.jobs.test_restoring import restored

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_came_first_but_waited_gives_no_session() -> None:
    """Prepared, and asked for before the quarantine was committed: it finds it all the same."""
    job, other = factories.at("pending"), factories.at("pending")
    prepared, closing = threading.Event(), threading.Event()

    def claim() -> int:
        transitions.assign(other.pool_id)
        prepared.set()
        closing.wait(RACE_SECONDS)
        return transitions.assign(job.pool_id)

    claimed = in_another_connection(claim)
    assert prepared.wait(RACE_SECONDS)
    with transaction.atomic():
        restored()
        closing.set()
        wait_until_blocked_by_us()
    assert claimed.result(RACE_SECONDS) == 0
    assert not Attempt.objects.filter(job=job).exists()


@pytest.mark.django_db(transaction=True)
def test_it_waits_longer_for_an_answer_than_others_do() -> None:
    job = factories.at("pending")

    def impatient() -> restoring.Closed:
        with patient(0.05):
            return restored()

    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        closing = in_another_connection(impatient)
        wait_until_blocked_by_us()
        execute("SELECT pg_sleep(0.2)")
    assert closing.result(RACE_SECONDS).suspected == 1


@pytest.mark.django_db(transaction=True)
def test_an_intent_that_is_committed_first_is_doubted() -> None:
    job = factories.at("assigned")
    with transaction.atomic():
        (flight,) = transitions.dispatch([job.pk], HOLDER)
        closing = in_another_connection(restored)
        wait_until_blocked_by_us()
    assert closing.result(RACE_SECONDS).doubted == 1
    assert attempt_of(job).verdict == "unknown"
    transitions.learn([Finding.of_answer(flight, factories.SUCCESS)])
    assert attempt_of(job).phase == "calling"
    connection.close()
