"""What an operator reads of a job that is at the upstream: what is known, how it is found out, until when, and what then."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobs import asking, inquiry, outlook, transitions
from jobs.models import Job
from jobs.queries.under_way import under_way
from tests import db, factories
from tests.control.conftest import Operator
from tests.factories import CUT, HOLDER, attempt_of
from tests.jobs.test_asking import (
    EVERY,
    FIND,
    NOBODY_KNOWS,
    OVER_SECONDS,
    RUNNING,
    accepted,
    ask,
    poll_type,
    sent,
)

pytestmark = pytest.mark.django_db
LOST = replace(CUT, error_message="the connection was cut")


def doubted(job_type: Any) -> Job:
    job, flight = sent(job_type)
    factories.learn(flight, LOST)
    return job


def facts(job: Job) -> dict[str, str]:
    return dict(outlook.in_full(under_way([job.pk])[job.pk]))


def at(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.parametrize(
    ("job_type", "how", "next_at"),
    [
        (lambda: poll_type(poll={**EVERY, "path": "'/tasks/' + dispatch_key"}), "By a poll.", "Polled at "),
        (lambda: poll_type(find=FIND), "By finding its dispatch key ", "Looked for by its key at "),
        (lambda: poll_type(idempotent=True), "By sending the same key again", "Sent again at "),
        (lambda: poll_type(poll=None, mode="callback"), "Nobody can be asked: only max_runtime", "Ends by itself at "),
        (lambda: poll_type(poll=None), "Nobody can be asked: only max_runtime", "Ends by itself at "),
    ],
    ids=["poll", "find", "same key", "callback", "time"],
)  # fmt: skip
def test_an_unknown_outcome_says_how_and_when_it_is_found_out(
    operator: Operator, job_type: Callable[[], Any], how: str, next_at: str
) -> None:
    job = doubted(job_type())
    page, told = operator.page(job), facts(job)
    attempt = attempt_of(job)
    assert "outcome unknown (connection_lost): " in page, "in Why"
    assert "The outcome is unknown (connection_lost: the connection was cut)" in page
    assert told["How it is found out"].startswith(how)
    assert ("or by its callback" in told["How it is found out"]) == (job.type.upstream["mode"] == "callback")
    # It may come due before, between or after the two questions: the pause before a repeat is drawn by lot.
    following = [next_at + at(attempt.look_at), next_at.replace(" at ", " now, it is due")]
    assert told.pop("Next") in following
    assert any(words in page for words in following)
    assert told["Last asked"] == "Not yet."
    ends_at = under_way([job.pk])[job.pk].row["ends_at"]
    assert attempt.called_at is not None
    assert (ends_at - attempt.called_at).total_seconds() == OVER_SECONDS
    assert told["At the latest"].startswith(at(ends_at))
    assert "waiting suffices" in page
    for words in told.values():
        assert words in page
    assert "outcome unknown (connection_lost): " in operator.listed(Job)


@pytest.mark.parametrize(
    ("fields", "asked", "follows"),
    [
        ({}, {}, "the job fails with outcome_unknown and its credits are given back (delivery: at_most_once)"),
        ({"delivery": "at_least_once"}, {}, "the job goes back to its line and runs again"),
        ({"delivery": "at_least_once"}, {"max_attempts": 1}, "credits are given back (no try is left)"),
    ],
)
def test_what_comes_then_is_what_the_delivery_policy_does(
    operator: Operator, fields: dict[str, Any], asked: dict[str, Any], follows: str
) -> None:
    job = factories.at("assigned", factories.make_job_type(**fields), **asked)
    factories.learn(factories.dispatch(job), LOST)
    assert follows in operator.page(job)
    db.let_time_pass(76)
    assert asking.verify([job.pk], HOLDER) == []
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert job.state == ("pending" if "line" in follows else "failed")
    assert "Nothing is there now" in operator.page(job)


def test_accepted_work_tells_its_reference_progress_and_when_it_is_asked(operator: Operator) -> None:
    job = accepted()
    factories.learn(ask(job), RUNNING)
    attempt, told = attempt_of(job), facts(job)
    assert told["Reference"] == "task-1"
    assert "50% done" in told["Known"]
    assert told["Next"] == f"Polled at {at(attempt.look_at)}"
    assert told["Last asked"] == f"{at(attempt.asked_at)}."
    assert "later while the upstream says that it runs" in told["At the latest"]
    assert f"at the upstream, 50% done: polled at {at(attempt.look_at)}" in operator.listed(Job)
    assert operator.listed(Job, only="running").count("50% done") == 1
    assert "Decide the outcome" not in operator.page(job)


def test_what_runs_longer_than_it_may_is_told_apart(operator: Operator) -> None:
    job = accepted()
    factories.learn(ask(job, OVER_SECONDS + 1), RUNNING)
    assert facts(job)["At the latest"].startswith("Overdue since ")
    page = operator.page(job)
    assert "overdue, still running: polled at " in page
    assert "Ask the provider." in page
    assert "overdue at the upstream. If you only wait: polled at " in operator.effect(
        "decide", job, outcome="give_back", reason="x", units=""
    )


def test_askings_that_told_nothing_are_counted(operator: Operator) -> None:
    job = accepted()
    factories.learn(ask(job), NOBODY_KNOWS)
    assert facts(job)["Last asked"].endswith("; 1 in a row told nothing.")
    assert "outcome unknown (http_404): polled at " in operator.page(job)


def test_a_wish_to_cancel_says_how_often_it_was_asked(operator: Operator) -> None:
    job = accepted(poll_type(cancel={"path": "'/cancel/' + reference", "success": "true"}))
    transitions.cancel(job.pk)
    assert f"Asked 0 of {inquiry.MOST_CANCELS} times; next now, it is due" in facts(job)["Cancel"]
    assert len(asking.cancel_upstream([job.pk])) == 1
    attempt = attempt_of(job)
    assert f"Asked 1 of {inquiry.MOST_CANCELS} times; next at {at(attempt.cancel_at)}" in operator.page(job)
    assert "the job is cancelled, its credits are given back" in facts(job)["If nobody knows then"]


def test_a_cancel_that_nobody_declared_is_waited_out(operator: Operator) -> None:
    job = accepted()
    transitions.cancel(job.pk)
    assert "Its type declares no cancel, so what runs is waited for." in operator.page(job)


def test_a_call_under_way_and_a_job_without_one(operator: Operator) -> None:
    job = factories.at("processing")
    assert "the upstream is being called, since " in operator.page(job)
    assert "the same key is being sent right now" not in operator.page(job)
    assert "Nothing is there now" in operator.page(factories.at("completed"))


def test_a_key_that_is_being_sent_again_is_said_to_be(operator: Operator) -> None:
    job = doubted(poll_type(idempotent=True))
    (again,) = [ask(job, 10)]
    assert again.action == "submit"
    assert "the same key is being sent right now" in operator.page(job)


def test_the_list_of_unknown_outcomes_has_those_alone(operator: Operator) -> None:
    job, _ = doubted(poll_type()), accepted()
    listed = operator.client.get("/admin/jobs/job/?only=unknown").context["cl"]
    assert list(listed.result_list) == [job]


def test_the_reasons_of_a_page_are_asked_for_at_once(
    operator: Operator, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    job_type = poll_type(factories.make_pool(sessions=20))
    for _ in range(20):
        accepted(job_type)
    with django_assert_max_num_queries(15):
        assert operator.listed(Job).count("at the upstream: polled at") == 20


def test_deciding_says_when_waiting_suffices(operator: Operator) -> None:
    job = doubted(poll_type(idempotent=True))
    assert "Waiting suffices where the upstream can still be asked" in operator.open("decide", job).content.decode()
    effect = operator.effect("decide", job, outcome="give_back", reason="x", units="")
    assert "outcome unknown. If you only wait: " in effect
    assert "the job fails with outcome_unknown" in effect
