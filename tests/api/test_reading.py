"""One job over HTTP: its document in each state, its result, its history, its tries."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from jobs import transitions
from pool import transitions as sessions
from statemachine.actors import acting_as
from tests import db, factories
from tests.api.conftest import Caller, assert_problem, body_of, pointers
from tests.factories import SUCCESS, dispatch, learn
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "waiting_for", "phase", "held"),
    [
        ("pending", "session", None, "10.000000"),
        ("assigned", None, "intended", "10.000000"),
        ("processing", None, "calling", "10.000000"),
        ("backing_off", "back_off", None, "10.000000"),
        ("cancelling", None, "calling", "10.000000"),
        ("completed", None, None, "0.000000"),
        ("failed", None, None, "0.000000"),
        ("cancelled", None, None, "0.000000"),
    ],
)
def test_a_job_says_where_it_stands(
    caller: Caller, state: str, waiting_for: str | None, phase: str | None, held: str
) -> None:
    job = factories.at(state, tenant=caller.tenant)
    response = caller.get(f"/v1/jobs/{job.pk}")
    document = body_of(response)
    ended = state in ("completed", "failed", "cancelled")
    assert (response.status_code, document["state"]) == (200, job.state)
    assert (document["waiting_for"], document["phase"]) == (waiting_for, phase)
    assert document["credits"]["held"] == held
    assert document["cancel_requested"] is (state == "cancelling")
    assert ("Retry-After" in response) is not ended
    assert (document["finished_at"] is not None) is ended
    assert response["Cache-Control"] == "private, no-cache"


def test_a_completed_job_shows_its_result_and_charge(caller: Caller) -> None:
    job = factories.at("completed", tenant=caller.tenant)
    document = body_of(caller.get(f"/v1/jobs/{job.pk}"))
    assert document["result"] == SUCCESS.result
    assert document["result_url"] == document["urls"]["result"]
    assert document["credits"] == {"held": "0.000000", "charged": "3.000000", "refunded": "0.000000"}


def test_a_failed_job_shows_why(caller: Caller) -> None:
    job = factories.at("failed", tenant=caller.tenant)
    document = body_of(caller.get(f"/v1/jobs/{job.pk}"))
    assert document["error"] == {"code": "bad_prompt", "message": "", "retryable": False}
    assert (document["result"], document["result_url"]) == (None, None)


def test_an_outcome_being_found_out_is_verifying(caller: Caller) -> None:
    job = factories.at("processing", tenant=caller.tenant)
    from jobs.queries import flights

    (flight,) = flights.opened([factories.attempt_of(job).pk])
    learn(flight, factories.CUT)
    assert body_of(caller.get(f"/v1/jobs/{job.pk}"))["phase"] == "verifying"


def test_the_place_in_the_line_counts_those_before(caller_of: Callable[..., Caller]) -> None:
    job_type = factories.make_job_type()
    one, other = caller_of(), caller_of()
    for _ in range(2):
        one.submit(job_type)
    last = body_of(other.submit(job_type))["id"]
    assert body_of(other.get(f"/v1/jobs/{last}"))["queue"] == {"position": 2, "ahead": 1, "eta_seconds": None}


def test_a_job_without_a_turn_has_no_place(caller: Caller) -> None:
    job_type = factories.make_job_type(factories.make_pool(window=1))
    caller.submit(job_type)
    second = body_of(caller.submit(job_type))
    assert second["waiting_for"] == "turn"
    assert body_of(caller.get(second["urls"]["self"]))["queue"] is None


def test_an_unchanged_job_is_not_sent_again(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    tag = caller.get(f"/v1/jobs/{job.pk}")["ETag"]
    for condition in (tag, f'"0", W/{tag}', "*"):
        again = caller.get(f"/v1/jobs/{job.pk}", If_None_Match=condition)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
        assert "Retry-After" in again
    dispatch(job)
    assert caller.get(f"/v1/jobs/{job.pk}", If_None_Match=tag).status_code == 200


def test_wait_is_answered_at_once_where_nobody_waits(caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)
    assert caller.get(f"/v1/jobs/{job.pk}?wait=25&after=1").status_code == 200
    for query in ("wait=long", "wait=-1", "wait=nan", "after=x"):
        problem = assert_problem(caller.get(f"/v1/jobs/{job.pk}?{query}"), 422, "validation")
        assert pointers(problem) == [f"?{query.partition('=')[0]}"]


def test_a_result_is_given_when_there_is_one(caller: Caller) -> None:
    running = factories.at("processing", tenant=caller.tenant)
    response = caller.get(f"/v1/jobs/{running.pk}/result")
    assert (response.status_code, response["Retry-After"]) == (202, "1")
    completed = factories.at("completed", tenant=caller.tenant)
    response = caller.get(f"/v1/jobs/{completed.pk}/result")
    assert (response.status_code, body_of(response)) == (200, SUCCESS.result)
    assert response["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_job_without_result_says_so(caller: Caller, state: str) -> None:
    job = factories.at(state, tenant=caller.tenant)
    problem = assert_problem(caller.get(f"/v1/jobs/{job.pk}/result"), 409, "job-failed")
    assert (problem["state"], problem["error"]["code"]) == (state, (job.error or {})["code"])


def test_a_large_result_has_an_address_of_its_own(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    large = {"n": list(range(40_000))}
    answer = Outcome(over=True, verdict="succeeded", status=200, units=1.0, result=large)
    factories.end(job, answer)
    document = body_of(caller.get(f"/v1/jobs/{job.pk}"))
    assert document["result"] is None
    assert body_of(caller.get(document["result_url"])) == large


def test_the_history_tells_each_move(caller: Caller) -> None:
    job = factories.at("completed", tenant=caller.tenant)
    moves = body_of(caller.get(f"/v1/jobs/{job.pk}/moves"))["data"]
    assert [(move["from"], move["to"]) for move in moves] == [
        (None, "pending"), ("pending", "assigned"), ("assigned", "processing"), ("processing", "completed"),
    ]  # fmt: skip
    assert {move["actor"] for move in moves} <= {"tenant", "operator", "berth"}


@pytest.mark.parametrize(
    ("who", "told"),
    [("admin:root", "operator"), ("shell:root", "operator"), ("shell", "operator"), ("redrive:1", "berth")],
)
def test_an_operator_is_one_whether_at_a_page_or_at_the_shell(caller: Caller, who: str, told: str) -> None:
    job = factories.at("failed", tenant=caller.tenant)
    with acting_as(who):
        transitions.replay(job.pk)
    assert body_of(caller.get(f"/v1/jobs/{job.pk}/moves"))["data"][-1]["actor"] == told


def test_the_tries_show_nothing_of_the_upstream(caller: Caller) -> None:
    job = factories.at("backing_off", tenant=caller.tenant)
    (attempt,) = body_of(caller.get(f"/v1/jobs/{job.pk}/attempts"))["data"]
    assert set(attempt) == {"number", "run", "phase", "verdict", "error", "opened_at", "called_at", "ended_at"}
    assert (attempt["verdict"], attempt["error"]["code"]) == ("not_executed", "connect")


def test_times_are_utc_as_in_rfc_3339(caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)
    text = body_of(caller.get(f"/v1/jobs/{job.pk}"))["created_at"]
    assert text.endswith("Z")
    assert datetime.now(UTC) - datetime.fromisoformat(text) < timedelta(minutes=1)


def test_a_tenant_sees_tries_that_count_and_all_attempts_apart(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    factories.end(job, factories.BUSY)
    address = f"/v1/jobs/{job.pk}"
    assert body_of(caller.get(address))["attempts"] == 0
    db.let_time_pass(10)
    sessions.release([factories.session_of(job).pk])
    transitions.come_due([job.pk])
    transitions.promote(job.pool_id, [job.tenant_id])
    transitions.assign(job.pool_id)
    flight = factories.dispatch(job)
    assert body_of(caller.get(address))["attempts"] == 1
    factories.learn(flight, factories.SUCCESS)
    transitions.finish([job.pk])
    assert body_of(caller.get(address))["attempts"] == 1
    assert len(body_of(caller.get(f"{address}/attempts"))["data"]) == 2
