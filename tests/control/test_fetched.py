"""A result that waits to be fetched in an operator's hands."""

import pytest

from broker_project.doctor import of_work
from jobs import fetching, results
from jobs.findings import Finding
from jobs.models import Job
from jobs.queries import missed
from tests import factories
from tests.control.conftest import Operator
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
WHY = "the host cdn.example is neither base_url's nor one of hosts"


def waiting() -> Job:
    job = factories.at("assigned")
    links = {"file": "https://cdn.example/a.png"}
    results.learn([Finding(factories.dispatch(job), Outcome(over=True, verdict="succeeded", files=links))])
    for tries in range(1, 7):
        due_now(job)
        (flight,) = fetching.take([job.id], 1)
        fetching.put_off(flight, tries, WHY)
    return job


def due_now(job: Job) -> None:
    attempt = factories.attempt_of(job)
    attempt.fetch_at = attempt.opened_at
    attempt.save(update_fields=["fetch_at"])


def test_an_operator_has_it_fetched_again_after_mending_what_is_declared(operator: Operator) -> None:
    job = waiting()
    job.refresh_from_db()
    page = operator.effect("fetch_now", job)
    assert f"processing, its result waits: {WHY}; tried 6 times" in page
    assert missed.jobs_to_fetch() == [], "looking changes nothing"
    assert "it is being fetched" in operator.do("fetch_now", job)
    assert missed.jobs_to_fetch() == [job.id]
    assert factories.money(job.tenant)[1] > 0, "what is held stays held"
    assert "being fetched right now" in operator.do("fetch_now", job)


def test_of_other_jobs_there_is_nothing_to_fetch(operator: Operator) -> None:
    for state in ("pending", "processing", "completed", "failed"):
        assert "no result of it waits to be fetched" in operator.effect("fetch_now", factories.at(state))


def test_the_doctor_tells_of_what_waits_and_why() -> None:
    assert of_work.results().level == "ok"
    job = waiting()
    found = of_work.results()
    assert (found.level, found.found.startswith("1 result could not be fetched yet: ")) == ("warning", True)
    assert f"{job.type.name} of {job.pool.name} (1): {WHY}" in found.found
