"""The address an upstream calls: made of the dispatch key alone, with a token that nobody can forge."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from jobs import callbacks, transitions
from jobs.flight import Flight
from tests import db, factories
from tests.factories import attempt_of
from tests.jobs.test_asking import TAKEN, finished, poll_type, sent
from tests.jobs.test_callbacks import DONE_BODY, REFERENCE, SAYS, address_of, tell, told_job
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
TELLING = {"pool_upstream": "{}", "type_upstream": '{"mode": "callback"}', "declared_as_called": True}  # of a flight


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


@pytest.mark.parametrize("mode", ["poll", "sync"])
def test_who_is_not_to_call_back_gets_no_address(mode: str) -> None:
    job, _ = sent(poll_type(mode=mode))
    assert address_of(job) == ""


@pytest.mark.parametrize("forged", ["0" * 64, "", "x", "\u00e9"])
def test_a_forged_token_is_not_found(forged: str) -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    before = db.everything()
    for name in (attempt_of(job).pk, attempt_of(job).dispatch_key):
        assert tell(f"/v1/upstream/{name}/{forged}", DONE_BODY) == 404
    assert db.everything() == before


def test_the_token_of_one_attempt_speaks_of_no_other() -> None:
    first, flight = told_job(polled=False)
    second, other = told_job(polled=False)
    factories.learn(flight, TAKEN)
    factories.learn(other, Outcome(over=False, verdict="", reference="task-2"))
    token = address_of(first).rpartition("/")[2]
    for name in (attempt_of(second).pk, attempt_of(second).dispatch_key):
        assert tell(f"/v1/upstream/{name}/{token}", DONE_BODY) == 404
    assert tell(address_of(second), DONE_BODY) == 404, "it names the other's work"
    assert tell("/v1/upstream/99999999999999999999/x", DONE_BODY) == 404
    assert attempt_of(second).ended_at is None


def test_the_address_is_of_the_key_alone_and_so_the_same_after_a_restore() -> None:
    job, flight = told_job(polled=False)
    lost = replace(flight, attempt_id=flight.attempt_id + 2**34, row={**flight.row, "attempt_id": 2**34})
    assert callbacks.address(lost) == callbacks.address(flight) == address_of(job)
    assert f"/v1/upstream/job.{job.pk}.a1/" in address_of(job)


def test_an_address_of_before_which_named_the_id_is_understood() -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    token = address_of(job).rpartition("/")[2]
    assert tell(f"/v1/upstream/{attempt_of(job).pk}/{token}", DONE_BODY) == 204
    assert finished(job).state == "completed"


def test_news_of_what_a_restore_lost_are_to_be_repeated_until_it_is_there_again() -> None:
    """A waiting job whose first try was begun in the lost time, and is told of before its key is sent again."""
    job = factories.at("pending", poll_type(mode="callback", poll=None, callback={**SAYS, **REFERENCE}))
    row = {"dispatch_key": f"job.{job.pk}.a1", **TELLING}
    address = callbacks.address(Flight(7, 1, job.pk, 1, row))
    before = db.everything()
    answer = Client().post(address.removeprefix("https://berth.example"), DONE_BODY, content_type="application/json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert db.everything() == before
    transitions.assign(job.pool_id)
    factories.learn(factories.dispatch(job), TAKEN)
    assert tell(address, DONE_BODY) == 204
    assert finished(job).state == "completed"


def test_news_of_an_attempt_that_never_comes_again_are_not_found() -> None:
    job = factories.at("cancelled", poll_type(mode="callback", poll=None, callback={**SAYS, **REFERENCE}))
    for job_id in (job.pk, UUID(int=7)):
        row = {"dispatch_key": f"job.{job_id}.a1", **TELLING}
        assert tell(callbacks.address(Flight(7, 1, job_id, 1, row)), DONE_BODY) == 404
