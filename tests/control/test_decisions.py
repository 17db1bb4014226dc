"""An unknown outcome in an operator's hands: charged or given back, fenced like an answer, with the reason as evidence."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction

from broker_project.doctor import of_work
from credits.models import Hold
from jobs import asking, decisions, late, transitions
from jobs.decisions import NothingToDecide, Word
from jobs.flight import Flight
from jobs.models import Evidence, Job, JobMove
from jobs.queries import occupancy
from jobs.reviews import VERIFY_SECONDS, review
from jobs.transitions import REVIEW_SECONDS
from pool.queries import health
from tests import db, factories
from tests.control.conftest import Operator
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.factories import HOLDER, MICRO, attempt_of, money, session_of
from webhooks.models import Event

pytestmark = pytest.mark.django_db
CHARGE = {"outcome": "executed", "reason": "their list shows it", "units": ""}
GIVE_BACK = {"outcome": "give_back", "reason": "their list is gone", "units": ""}
NOTHING = "no outcome of it is unknown, or it is being found out right now"


def in_doubt(**fields: Any) -> tuple[Job, Flight]:
    job = factories.at("assigned", factories.make_job_type(**{"max_runtime_ms": 7 * 86_400_000, **fields}))
    flight = factories.dispatch(job)
    factories.learn(flight, factories.CUT)
    job.refresh_from_db()
    return job, flight


def test_executed_is_charged_like_an_answer(operator: Operator) -> None:
    job, _ = in_doubt(settle="")
    page = operator.effect("decide", job, **CHARGE)
    assert "processing, outcome unknown" in page
    assert "completed; 10 of 10 credits are charged" in page
    assert "its session is declared over" in page
    assert Job.objects.get().state == "processing", "looking changes nothing"
    assert "completed, 10 credits are charged" in operator.do("decide", job, **CHARGE)
    job.refresh_from_db()
    assert (job.state, job.charged, job.result) == ("completed", 10 * MICRO, None)
    assert money(job.tenant) == (990 * MICRO, 0)
    assert (session_of(job).state, attempt_of(job).verdict) == ("available", "succeeded")
    assert Event.objects.get().type == "job.completed"
    assert JobMove.objects.latest("id").actor == "admin:root"
    evidence = Evidence.objects.latest("id")
    assert (evidence.kind, evidence.fence) == ("operator", attempt_of(job).fence)
    assert {name: evidence.content[name] for name in ("by", "reason", "session", "verdict")} == {
        "by": "admin:root",
        "reason": "their list shows it",
        "session": "declared over",
        "verdict": "succeeded",
    }
    assert "their list shows it" in LogEntry.objects.get().get_change_message()


@pytest.mark.parametrize(("units", "charged"), [("4", 4), ("400", 10), ("", 10)])
def test_executed_is_charged_by_the_units_that_the_operator_found(operator: Operator, units: str, charged: int) -> None:
    job, _ = in_doubt()
    form = {**CHARGE, "units": units}
    assert f"completed; {charged} of 10 credits are charged" in operator.effect("decide", job, **form)
    operator.do("decide", job, **form)
    job.refresh_from_db()
    assert job.charged == charged * MICRO
    assert bool(job.flagged) == (units != "4"), "usage that nobody knows, or believes, is flagged"


@pytest.mark.parametrize("fields", [{}, {"delivery": "at_least_once"}, {"idempotent": True}])
def test_given_back_fails_with_an_unknown_outcome(operator: Operator, fields: dict[str, Any]) -> None:
    """Also where it could be repeated: the operator has decided."""
    job, flight = in_doubt(**fields)
    assert "failed (outcome_unknown); 10 credits are given back" in operator.effect("decide", job, **GIVE_BACK)
    assert "failed, 10 credits are given back" in operator.do("decide", job, **GIVE_BACK)
    job.refresh_from_db()
    assert job.error is not None
    assert (job.state, job.error["code"], job.error["message"]) == ("failed", "outcome_unknown", "")
    assert (Hold.objects.get().status, money(job.tenant)) == ("released", (1_000 * MICRO, 0))
    assert (session_of(job).state, attempt_of(job).verdict) == ("available", "unknown")
    assert Evidence.objects.latest("id").content["by"] == "admin:root"
    factories.learn(flight, factories.SUCCESS)
    assert late.book([job.pk]) == 1
    page = operator.page(job)
    assert "late completion" in page
    assert "3 (our loss)" in page


def test_given_back_after_a_cancel_was_asked_for_is_cancelled(operator: Operator) -> None:
    job, _ = in_doubt()
    transitions.cancel(job.pk)
    job.refresh_from_db()
    assert "cancelled; 10 credits are given back" in operator.effect("decide", job, **GIVE_BACK)
    operator.do("decide", job, **GIVE_BACK)
    assert Job.objects.get().state == "cancelled"


@pytest.mark.parametrize("state", ["pending", "assigned", "processing", "completed", "failed"])
def test_there_is_nothing_to_decide_where_nothing_is_unknown(operator: Operator, state: str) -> None:
    job = factories.at(state)
    before = db.everything()
    assert "Decide the outcome" not in operator.page(job)
    assert NOTHING in operator.effect("decide", job, **CHARGE)
    operator.do("decide", job, **CHARGE)
    assert db.everything() == before


def test_a_reason_is_needed(operator: Operator) -> None:
    job, _ = in_doubt()
    assert "This field is required" in operator.do("decide", job, outcome="executed", reason="")
    assert Job.objects.get().state == "processing"


def test_what_moved_on_since_the_page_was_made_is_left_alone(operator: Operator) -> None:
    job, flight = in_doubt(idempotent=True)
    page = operator.hidden("decide", job)
    db.let_time_pass(10)
    (again,) = asking.verify([job.pk], HOLDER)
    assert "it has moved on since this page was made" in operator.do("decide", job, hidden=page, **CHARGE)
    assert NOTHING in operator.effect("decide", job, **CHARGE), "it is being sent again"
    with pytest.raises(NothingToDecide):
        decisions.decide(job.pk, Word(True, "their list shows it", "admin:root"))
    factories.learn(again, factories.CUT)
    assert "it has moved on since this page was made" in operator.do("decide", job, hidden=page, **CHARGE)
    assert again.fence > flight.fence
    assert Job.objects.get().state == "processing"


def test_one_who_may_only_look_decides_nothing(onlooker: Callable[..., Operator]) -> None:
    job, _ = in_doubt()
    looking = onlooker("view_job")
    assert "Decide the outcome" not in looking.page(job)
    assert looking.open("decide", job).status_code == 403


def test_a_job_that_needs_attention_is_listed_told_and_counted(operator: Operator) -> None:
    job, _ = in_doubt()
    other = factories.at("pending")
    assert of_work.attention().level == "ok"
    db.let_time_pass(VERIFY_SECONDS + 60)
    db.let_holds_age(REVIEW_SECONDS + 61)
    review()
    listed = operator.client.get("/admin/jobs/job/?only=attention").context["cl"]
    assert list(listed.result_list) == [job]
    assert "needs attention: outcome_unknown" in operator.page(job)
    assert "reviewed at" in operator.page(other)
    found = of_work.attention()
    assert (found.level, found.found) == ("warning", f"an operator is needed for 1 job: {job.pool.name} (1)")
    assert {row["id"]: row["needs_attention"] for row in occupancy.by_pool()}[job.pool_id] == 1
    operator.do("decide", job, **GIVE_BACK)
    assert of_work.attention().level == "ok"
    assert operator.client.get("/admin/jobs/job/?only=attention").context["cl"].result_count == 0


@pytest.mark.django_db(transaction=True)
def test_an_operator_who_waits_for_an_answer_decides_nothing() -> None:
    """What was there first has won: the answer is charged, and only once."""
    job, flight = in_doubt()
    with transaction.atomic():
        factories.learn(flight, factories.SUCCESS)
        other = in_another_connection(lambda: decisions.decide(job.pk, Word(False, "gone", "admin:root")))
        wait_until_blocked_by_us()
    with pytest.raises(NothingToDecide):
        other.result(RACE_SECONDS)
    transitions.finish([job.pk])
    assert Job.objects.get().charged == 3 * MICRO
    assert not Evidence.objects.filter(kind="operator").exists()


@pytest.mark.django_db(transaction=True)
def test_an_operator_waits_at_the_job_and_holds_nothing_under_it() -> None:
    """Whoever has the job may go on to its attempt."""
    job, _ = in_doubt()
    with transaction.atomic():
        transitions.cancel(job.pk)
        other = in_another_connection(lambda: decisions.decide(job.pk, Word(False, "gone", "admin:root")))
        wait_until_blocked_by_us()
        assert db.execute("SELECT id FROM jobs_attempt WHERE job_id = %s FOR UPDATE NOWAIT", [job.pk]) == 1
    assert other.result(RACE_SECONDS).state == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_waits_for_an_operator_is_late() -> None:
    job, flight = in_doubt()
    with transaction.atomic():
        decisions.decide(job.pk, Word(False, "gone", "admin:root"))
        other = in_another_connection(lambda: factories.learn(flight, factories.SUCCESS))
        wait_until_blocked_by_us()
    other.result(RACE_SECONDS)
    assert late.book([job.pk]) == 1
    assert money(job.tenant) == (1_000 * MICRO, 0)


@pytest.mark.django_db(transaction=True)
def test_a_word_takes_the_health_of_its_pool_before_a_session_as_all_others_do() -> None:
    job, _ = in_doubt(settle="")
    word = Word(executed=True, reason="their list shows it", by="admin:root")
    with transaction.atomic():
        health.lock([job.pool_id])
        deciding = in_another_connection(lambda: decisions.decide(job.pk, word))
        wait_until_blocked_by_us()
        db.execute("SELECT id FROM pool_resource WHERE id = %s FOR UPDATE NOWAIT", [session_of(job).pk])
    assert deciding.result(RACE_SECONDS).state == "completed"
