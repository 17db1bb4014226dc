"""What the upstream tells us is bound to one attempt; told early, late, twice or out of order it moves a job once."""

import json
from typing import Any

import pytest
from django.test import Client

from jobs import asking, callbacks
from jobs.flight import Flight
from jobs.models import Evidence, Job, LateCompletion
from jobs.queries import flights
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.test_asking import BROKE, DONE, RUNNING, TAKEN, finished, poll_type, sent
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
SAYS = {
    "running": "response.body.status == 'running'",
    "success": "response.body.status == 'done'",
    "failed": "response.body.status == 'failed'",
    "progress": "response.body.progress",
    "units": "response.body.units",
    "result": "response.body.output",
}
REFERENCE = {"reference": "response.body.id"}
DONE_BODY = {"id": "task-1", "status": "done", "progress": 1, "units": 3, "output": {"text": "made"}}
RUNNING_BODY = {"id": "task-1", "status": "running", "progress": 0.5, "units": None, "output": None}


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://berth.example"


def told_job(*, polled: bool) -> tuple[Job, Flight]:
    """A job whose call is on its way, to an upstream that calls back; `polled`: it can be asked too."""
    poll = {"path": "'/tasks/' + reference", "every": "2s", **SAYS} if polled else None
    return sent(poll_type(mode="callback", poll=poll, callback=REFERENCE if polled else {**SAYS, **REFERENCE}))


def tell(address: str, body: Any) -> int:
    path = address.removeprefix("https://berth.example")
    return Client().post(path, json.dumps(body), content_type="application/json").status_code


def address_of(job: Job) -> str:
    flight = flights.of_attempt(attempt_of(job).pk)
    assert flight is not None
    return callbacks.address(flight)


def test_its_word_ends_what_cannot_be_asked_for() -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    assert tell(address_of(job), RUNNING_BODY) == 204
    assert (attempt_of(job).phase, attempt_of(job).progress) == ("accepted", 0.5)
    assert tell(address_of(job), DONE_BODY) == 204
    assert session_of(job).state == "available"
    job = finished(job)
    assert (job.state, job.charged, job.result) == ("completed", 3_000_000, {"text": "made"})


def test_an_early_word_is_taken_and_the_answer_that_follows_changes_nothing() -> None:
    job, flight = told_job(polled=False)
    assert tell(address_of(job), DONE_BODY) == 204
    assert finished(job).state == "completed"
    before = db.everything()
    factories.learn(flight, TAKEN)
    after = db.everything()
    assert len(after.pop("jobs_evidence")) == len(before.pop("jobs_evidence")) + 1
    assert after == before


def test_an_early_running_does_not_take_the_lease_from_whoever_calls() -> None:
    job, _ = told_job(polled=False)
    assert tell(address_of(job), RUNNING_BODY) == 204
    assert (attempt_of(job).phase, attempt_of(job).lease_until is None) == ("calling", False)


def test_told_five_times_and_out_of_order_it_moves_once() -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    for body in [DONE_BODY] * 5 + [RUNNING_BODY]:
        assert tell(address_of(job), body) == 204
    job = finished(job)
    assert (job.state, job.charged) == ("completed", 3_000_000)
    assert LateCompletion.objects.count() == 0
    assert Evidence.objects.filter(kind="callback").count() == 6


def test_where_it_can_be_asked_its_word_is_a_hint_and_the_poll_decides() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, TAKEN)
    assert asking.verify([job.pk], HOLDER) == []
    assert tell(address_of(job), DONE_BODY) == 204
    assert session_of(job).state == "busy"
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, RUNNING)
    assert finished(job).state == "processing", "what it says there counts"
    assert tell(address_of(job), DONE_BODY) == 204
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, DONE)
    assert finished(job).state == "completed"


def test_an_early_hint_is_followed_as_soon_as_the_answer_is_there() -> None:
    job, flight = told_job(polled=True)
    assert tell(address_of(job), DONE_BODY) == 204
    factories.learn(flight, TAKEN)
    assert [poll.action for poll in asking.verify([job.pk], HOLDER)] == ["poll"]


def test_an_early_hint_is_followed_as_soon_as_the_answer_is_known_to_be_lost() -> None:
    job, flight = told_job(polled=True)
    assert tell(address_of(job), DONE_BODY) == 204
    factories.learn(flight, factories.CUT)
    assert [poll.action for poll in asking.verify([job.pk], HOLDER)] == ["poll"]


def test_a_hint_tells_the_reference_of_a_lost_answer() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, factories.CUT)
    assert tell(address_of(job), DONE_BODY) == 204
    (poll,) = asking.verify([job.pk], HOLDER)
    assert (poll.action, poll.row["reference"]) == ("poll", "task-1")


def test_without_a_word_it_is_polled_all_the_same() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, TAKEN)
    db.let_time_pass(31)
    assert [poll.action for poll in asking.verify([job.pk], HOLDER)] == ["poll"]


def test_where_it_cannot_be_asked_after_a_lost_answer_its_word_is_taken() -> None:
    """No reference is known, and none is told: there is nothing to ask for."""
    poll = {"path": "'/tasks/' + reference", "every": "2s", **SAYS}
    job, flight = sent(poll_type(mode="callback", poll=poll))
    factories.learn(flight, factories.CUT)
    assert tell(address_of(job), DONE_BODY) == 204
    assert finished(job).state == "completed"


def test_a_word_that_comes_while_it_is_asked_is_newer_than_the_answer() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, TAKEN)
    db.let_time_pass(31)
    (poll,) = asking.verify([job.pk], HOLDER)
    assert tell(address_of(job), DONE_BODY) == 204
    factories.learn(poll, RUNNING)
    assert [again.action for again in asking.verify([job.pk], HOLDER)] == ["poll"]


def test_a_late_word_does_not_gainsay_a_poll() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, TAKEN)
    db.let_time_pass(31)
    (poll,) = asking.verify([job.pk], HOLDER)
    factories.learn(poll, BROKE)
    for _ in range(3):
        assert tell(address_of(job), DONE_BODY) == 204
    assert LateCompletion.objects.count() == 0
    assert Evidence.objects.filter(kind="callback").count() == 3


def test_a_word_too_large_to_be_read_is_news_all_the_same() -> None:
    job, flight = told_job(polled=True)
    factories.learn(flight, TAKEN)
    assert tell(address_of(job), {"id": "x" * 10_000_001}) == 204
    assert [poll.action for poll in asking.verify([job.pk], HOLDER)] == ["poll"]


REFUSED = Outcome(over=True, verdict="not_executed", error_class="transient", status=503, error_code="http_503")
MISSING = Outcome(over=True, verdict="not_executed", status=404, error_code="missing")


@pytest.mark.parametrize("polled", [True, False])
def test_a_refusal_after_its_word_is_somebody_elses(polled: bool) -> None:
    """What stands between us and the upstream refuses what the upstream has told us about."""
    job, flight = told_job(polled=polled)
    assert tell(address_of(job), RUNNING_BODY) == 204
    factories.learn(flight, REFUSED)
    assert (attempt_of(job).verdict, attempt_of(job).ended_at) == ("unknown", None)
    assert session_of(job).state == "busy"


@pytest.mark.parametrize("body", [RUNNING_BODY, {"status": "running"}])
def test_a_key_that_is_not_known_does_not_gainsay_its_word(body: Any) -> None:
    find = {"path": "'/find?key=' + dispatch_key"}
    said = {**SAYS, "confirm": False}
    job, flight = sent(poll_type(mode="callback", poll=None, find={**find, **SAYS}, callback=said))
    factories.learn(flight, factories.CUT)
    db.let_time_pass(10)
    (look,) = asking.verify([job.pk], HOLDER)
    assert look.action == "find"
    assert tell(address_of(job), body) == 204
    factories.learn(look, MISSING)
    assert (attempt_of(job).verdict, attempt_of(job).ended_at) == ("unknown", None)


def test_a_late_success_of_a_run_that_failed_is_our_loss() -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    db.let_time_pass(616)
    assert asking.verify([job.pk], HOLDER) == []
    assert finished(job).state == "failed"
    assert tell(address_of(job), DONE_BODY) == 204
    assert LateCompletion.objects.get().job_id == job.pk
    assert finished(job).state == "failed"


@pytest.mark.parametrize("charset", ["undefined", "idna", "unicode_escape", "punycode", "utf-7"])
def test_a_word_in_an_odd_charset_is_taken_and_says_nothing(charset: str) -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    path = address_of(job).removeprefix("https://berth.example")
    sent_as = f"text/plain; charset={charset}"
    answer = Client().generic("POST", path, b"\x80+2AA-", content_type=sent_as, HTTP_RETRY_AFTER="Mon, 01 Jan 99999")
    assert answer.status_code == 204
    assert attempt_of(job).ended_at is None


def test_no_more_than_so_many_words_are_kept() -> None:
    job, flight = told_job(polled=False)
    factories.learn(flight, TAKEN)
    Evidence.objects.bulk_create(
        Evidence(attempt=attempt_of(job), kind="callback", fence=1, content={}) for _ in range(callbacks.MOST_TOLD)
    )
    assert tell(address_of(job), {"id": "task-1", "status": "odd"}) == 204
    assert Evidence.objects.filter(kind="callback").count() == callbacks.MOST_TOLD
    assert tell(address_of(job), DONE_BODY) == 204
    assert finished(job).state == "completed", "an end is never too much"
