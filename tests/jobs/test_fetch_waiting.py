"""A result that what is declared keeps from us waits for a day to be mended, and its tenant is told nothing of our inside."""

import pytest

from jobs import fetcher, fetching
from jobs.models import Evidence
from jobs.queries import missed
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.db import let_time_pass
from tests.jobs.fetch_world import answered, ended, mended, tried, until
from tests.linking import Linking
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_declared_wrongly_waits_to_be_mended_and_is_fetched_then(caller: Caller, provider: Linking) -> None:
    body = {"made": {"url": f"{provider.url}/a.png"}}
    unread = {"status": 200, "headers": {}, "body": body}
    job = answered(
        caller, provider, None, unread=unread, error_code="result_unavailable", error_message="urls: no such key"
    )
    mended(job, urls="response.body.url")
    tried(job)
    assert missed.jobs_to_finish() == []
    for _ in range(2 * len(fetching.PAUSES_SECONDS)):
        before = factories.attempt_of(job).fetch_tries
        let_time_pass(fetching.PUT_OFF_SECONDS + 1)
        fetcher.fetch([job.id])
        until(lambda before=before: Evidence.objects.filter(kind="fetch").count() > before)
    attempt = factories.attempt_of(job)
    assert (attempt.verdict, attempt.error_code, attempt.finished_at) == ("succeeded", "result_unavailable", None)
    assert factories.money(caller.tenant)[1] > 0, "its hold stays"
    assert (fetching.hasten(job.id), missed.jobs_to_fetch()) == (True, [job.id])
    mended(job, urls="response.body.made.url")
    fetcher.fetch([job.id])
    assert ended(job).state == "completed"
    assert factories.attempt_of(job).error_code == ""
    shown = body_of(caller.get(f"/v1/jobs/{job.pk}/attempts"))["data"]
    assert shown[0]["error"] is None


def test_after_a_day_nobody_waits_for_it_any_more(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": "https://cdn.example/a.png"})
    tried(job)
    let_time_pass(fetching.LONGEST_WAIT_SECONDS + 1)
    fetcher.fetch([job.id])
    ended(job)
    assert (job.state, factories.money(caller.tenant)) == ("failed", (1_000 * factories.MICRO, 0))
    assert not fetching.hasten(job.id)


def test_tries_that_failed_by_our_fault_do_not_count_against_the_link(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/none"})
    for tries in range(1, fetching.MOST_LOST + 3):
        (flight,) = fetching.take([job.id], 1)
        assert flight.row["fetch_tries"] == tries
        fetching.put_off(flight, tries, "the host is none of hosts")
        let_time_pass(fetching.PUT_OFF_SECONDS + 1)
    (flight,) = fetching.take([job.id], 1)
    fetching.unpaid(flight, flight.row["fetch_tries"], "answered 503")
    assert factories.attempt_of(job).verdict == "succeeded"


def test_a_file_larger_than_the_type_allows_waits_for_a_larger_bound(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    mended(job, urls="''", max="10B")
    tried(job)
    assert Evidence.objects.get(kind="fetch").content["cause"] == "ours"
    mended(job, urls="''", max="1MB")
    let_time_pass(fetching.PAUSES_SECONDS[0] + 1)
    fetcher.fetch([job.id])
    assert ended(job).state == "completed"


def test_a_tenant_reads_nothing_of_our_inside(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": "http://127.0.0.1:1/a.png"})
    tried(job)
    let_time_pass(fetching.LONGEST_WAIT_SECONDS + 1)
    fetcher.fetch([job.id])
    ended(job)
    told = [caller.get(f"/v1/jobs/{job.pk}{more}").content.decode() for more in ("", "/attempts", "/result")]
    told.append(str(Event.objects.get().body))
    for text in told:
        assert "result_unavailable" in text
        assert "127.0.0.1" not in text
        assert "hosts" not in text
    assert "127.0.0.1" in Evidence.objects.filter(kind="fetch").latest("id").content["error_message"]
    assert "127.0.0.1" in factories.attempt_of(job).error_message


def test_a_restart_while_it_waits_forgets_neither_why_nor_since_when(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": "https://cdn.example/a.png"})
    tried(job)
    why = factories.attempt_of(job).error_message
    for _ in range(2):
        let_time_pass(fetching.PUT_OFF_SECONDS + 1)
        (flight,) = fetching.take([job.id], 1)
        fetching.left(flight.attempt_id, flight.row["fetch_tries"])
    attempt = factories.attempt_of(job)
    assert (attempt.error_message, attempt.verdict, attempt.fetch_tries) == (why, "succeeded", 3)
    (flight,) = fetching.take([job.id], 1)
    fetching.put_off(flight, flight.row["fetch_tries"], "still so")
    assert Evidence.objects.filter(kind="fetch").latest("id").content["try"] == 2, "restarts are none"
