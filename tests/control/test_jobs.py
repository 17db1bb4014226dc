"""Jobs in an operator's hands: run again, cancelled, put aside, each with its effect before and its actor in the history."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.contrib.admin.models import LogEntry

from jobs import transitions
from jobs.models import Attempt, Job, JobMove
from statemachine.admin import in_few_words
from tests import factories
from tests.control.conftest import Operator
from tests.factories import MICRO, REJECTED, attempt_of, money

pytestmark = pytest.mark.django_db


def test_a_dead_letter_runs_again_after_its_effect_was_shown(operator: Operator) -> None:
    job = factories.at("failed", tenant=factories.make_tenant(credits=12.5))
    shown = operator.effect("replay", job)
    assert "failed (bad_prompt), run 1" in shown
    assert "pending, run 2; 10 of 12.5 credits are held" in shown
    assert Job.objects.get().run == 1, "looking changes nothing"
    assert "run 2 has begun, 10 credits are held" in operator.do("replay", job)
    assert money(job.tenant) == (12.5 * MICRO, 10 * MICRO)
    move = JobMove.objects.latest("id")
    assert (move.from_state, move.to_state, move.actor) == ("failed", "pending", "admin:root")
    assert LogEntry.objects.get().get_change_message().startswith("Run again: run 2 has begun")


def test_what_cannot_be_paid_for_does_not_stop_the_others(operator: Operator) -> None:
    tenant = factories.make_tenant(credits=15)
    jobs = [factories.at("failed", tenant=tenant) for _ in range(2)]
    other = factories.at("completed")
    shown = operator.effect("replay", *jobs, other)
    assert "10 of 15 credits are held" in shown
    assert "it costs 10 credits" in shown
    assert "the job is completed" in shown
    told = operator.do("replay", *jobs, other)
    assert "run 2 has begun" in told
    assert [job.run for job in Job.objects.filter(tenant=tenant).order_by("id")] == [2, 1]
    assert LogEntry.objects.count() == 1


def test_a_page_that_is_sent_twice_does_it_once(operator: Operator) -> None:
    job = factories.at("failed")
    page = operator.hidden("replay", job)
    operator.do("replay", job, hidden=page)
    assert "it has moved on since this page was made" in operator.do("replay", job, hidden=page)
    transitions.assign(job.pool_id)
    factories.end(job, factories.REJECTED)
    assert "it has moved on since this page was made" in operator.do("replay", job, hidden=page)
    assert Job.objects.get().run == 2


@pytest.mark.parametrize(
    ("state", "effect", "after"),
    [
        ("pending", "cancelled; 10 credits are given back", "cancelled"),
        ("assigned", "cancelled; 10 credits are given back", "cancelled"),
        ("processing", "asked to end", "processing"),
        ("completed", "not done: it has ended", "completed"),
    ],
)
def test_a_job_is_cancelled_as_far_as_it_can_be(operator: Operator, state: str, effect: str, after: str) -> None:
    job = factories.at(state)
    assert effect in operator.effect("cancel", job)
    operator.do("cancel", job)
    job.refresh_from_db()
    assert job.state == after
    assert (job.cancel_requested_at is not None) == (state == "processing")


def test_a_dead_letter_is_put_aside(operator: Operator) -> None:
    job = factories.at("failed")
    assert operator.client.get("/admin/jobs/job/?only=dead_letters").context["cl"].result_count == 1
    operator.do("dismiss", job)
    assert operator.client.get("/admin/jobs/job/?only=dead_letters").context["cl"].result_count == 0
    assert "it is no dead letter" in operator.do("dismiss", job)


def test_the_page_of_a_job_tells_its_story_and_offers_what_fits(operator: Operator) -> None:
    job = factories.at("failed")
    page = operator.page(job)
    for part in ("Run again", "Dismiss", "not_executed", "bad_prompt", "released", "Attempts", "Credits", "History"):
        assert part in page, part
    assert "cancel Cancel" not in page, "the button, by its icon and its name"


@pytest.mark.parametrize("by", ["id", "tenant", "type", "state", "reference", "dispatch_key", "idempotency_key"])
def test_a_job_is_found_by(operator: Operator, by: str) -> None:
    job, other = factories.at("failed"), factories.at("completed")
    Attempt.objects.filter(job=job).update(reference="task-77")
    words = {
        "id": str(job.pk),
        "tenant": job.tenant.name,
        "type": job.type.name,
        "state": "failed",
        "reference": "task-77",
        "dispatch_key": factories.attempt_of(job).dispatch_key,
        "idempotency_key": job.idempotency_key,
    }[by]
    assert operator.found(Job, words) == [job]
    assert operator.found(Job, f"{words} completed") == []
    assert other not in operator.found(Job, "nothing-has-this")


def test_one_who_may_only_look_changes_nothing(onlooker: Callable[..., Operator]) -> None:
    job = factories.at("failed")
    looking = onlooker("view_job")
    assert "Run again" not in looking.page(job)
    assert looking.open("replay", job).status_code == 403
    assert looking.client.post("/admin/jobs/job/do/replay", {"ids": str(job.pk), "confirm": "1"}).status_code == 403
    assert Job.objects.get().run == 1


def test_one_who_may_change_jobs_operates_them(onlooker: Callable[..., Operator]) -> None:
    job = factories.at("failed")
    onlooker("view_job", "change_job").do("replay", job)
    assert JobMove.objects.latest("id").actor == "admin:onlooker"


def test_the_menu_of_the_list_leads_to_the_operation(operator: Operator) -> None:
    jobs = [factories.at("failed") for _ in range(2)]
    chosen = {"action": "replay", "_selected_action": [str(job.pk) for job in jobs]}
    response = operator.client.post("/admin/jobs/job/", chosen)
    assert response.status_code == 302
    assert all(str(job.pk) in response["Location"] for job in jobs)


def test_too_many_at_once_are_refused(operator: Operator) -> None:
    jobs = factories.submit_many(factories.make_tenant(), factories.make_job_type(), 101)
    chosen = {"action": "cancel", "_selected_action": [str(job.pk) for job in jobs]}
    response = operator.client.post("/admin/jobs/job/", chosen, follow=True)
    assert "At most 100 rows at once" in response.content.decode()


def test_a_long_reason_is_cut_between_words_with_an_ellipsis(operator: Operator) -> None:
    job = factories.at("assigned")
    said = "the prompt asks for something that no style of this provider can draw, in any of its many versions"
    factories.end(job, replace(REJECTED, error_message=said))
    assert "style of this provider can draw, in any…" in operator.listed(Job, only="dead_letters")
    assert said in operator.page(job)


@pytest.mark.parametrize(
    ("text", "cut"),
    [("short", "short"), ("ten letter", "ten letter"), ("some words more", "some…"), ("x" * 20, "x" * 9 + "…")],
)
def test_a_text_is_cut_to_a_length(text: str, cut: str) -> None:
    assert in_few_words(text, 10) == cut


def test_evidence_is_told_in_lines_and_not_as_python(operator: Operator) -> None:
    job = factories.at("failed")
    page = operator.page(attempt_of(job))
    assert "verdict: not_executed" in page
    assert "error_code: bad_prompt" in page
    assert "over: true" in page
    assert "{'" not in page


@pytest.mark.parametrize("ids", ["", "no-id", "01900000-0000-7000-8000-000000000000", "%00"])
def test_what_is_no_row_is_not_found(operator: Operator, ids: str) -> None:
    assert operator.client.get(f"/admin/jobs/job/do/replay?ids={ids}").status_code == 404


def test_an_operation_that_does_not_exist_is_not_found(operator: Operator) -> None:
    job = factories.at("failed")
    assert operator.client.get(f"/admin/jobs/job/do/delete?ids={job.pk}").status_code == 404


def test_a_page_shows_the_beginning_of_a_large_payload(operator: Operator) -> None:
    job = factories.at("pending", payload={"text": "x" * 50_000})
    page = operator.page(job)
    assert "xxxx" in page
    assert "characters)" in page
    assert len(page) < 30_000
