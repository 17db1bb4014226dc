"""Results behind links are stored before the job is said to be completed; the session waits for none of it."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from files.models import File
from jobs import fetcher, fetching, results, transitions
from jobs.findings import Finding
from jobs.models import Evidence, Job
from jobs.queries import fetches, missed
from jobs.sweep import sweep, sweep_calls
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.db import let_time_pass
from tests.linking import Linking
from upstream.calls import Outcome
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)
IMAGE = b"\x89PNG" * 1_000
PATIENCE_SECONDS = 10


@pytest.fixture
def provider() -> Iterator[Linking]:
    made = Linking()
    made.pages["/a.png"] = (200, {"Content-Type": "image/png"}, IMAGE)
    yield made
    made.die()


@pytest.fixture(autouse=True)
def _nothing_goes_on_after_the_test() -> Iterator[None]:
    yield
    fetcher.stop()


def answered(caller: Caller, provider: Linking, links: Any, result: Any = None, **fields: Any) -> Job:
    """A job whose upstream said that it succeeded, with these links; learned, and nothing more."""
    pool = factories.make_tracked_pool(100, upstream={"base_url": provider.url})
    upstream = {"mode": "sync", "submit": {"path": "'/run'"}, "result_files": {"urls": "''"}}
    job_type = factories.make_job_type(pool, upstream=upstream)
    job = factories.at("assigned", job_type, caller.tenant)
    outcome = Outcome(over=True, verdict="succeeded", units=3.0, result=result, files=links, **fields)
    results.learn([Finding(factories.dispatch(job), outcome)])
    return job


def mended(job: Job, **block: Any) -> None:
    """The type says it otherwise from now on."""
    job.type.upstream = {**job.type.upstream, "result_files": block}
    job.type.save()


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def tried(job: Job) -> None:
    """One try of the fetch, whatever comes of it."""
    fetcher.fetch([job.id])
    until(lambda: Evidence.objects.filter(kind="fetch").exists() or factories.attempt_of(job).fetch_at is None)


def ended(job: Job) -> Job:
    until(lambda: factories.attempt_of(job).fetch_at is None)
    transitions.finish([job.id])
    job.refresh_from_db()
    return job


def test_the_session_is_free_and_the_job_is_not_completed_before_its_file_is_here(
    caller: Caller, provider: Linking
) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    assert factories.session_of(job).state == "available"
    assert missed.jobs_to_finish() == []
    transitions.finish([job.id])
    assert body_of(caller.get(f"/v1/jobs/{job.pk}"))["state"] == "processing"
    assert caller.get(f"/v1/jobs/{job.pk}/result").status_code == 202
    fetcher.fetch([job.id])
    assert ended(job).state == "completed"


def test_after_the_link_has_died_our_copy_is_served(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    ended(job)
    provider.die()
    response: Any = caller.get(f"/v1/jobs/{job.pk}/result")
    assert (response.status_code, response["Content-Type"]) == (200, "image/png")
    assert b"".join(response.streaming_content) == IMAGE
    assert provider.url not in str(body_of(caller.get(f"/v1/jobs/{job.pk}")))


def test_many_files_stand_by_their_names(caller: Caller, provider: Linking) -> None:
    provider.pages["/b.txt"] = (200, {"Content-Type": "text/plain"}, b"words")
    links = {"image": f"{provider.url}/a.png", "text": f"{provider.url}/b.txt"}
    job = answered(caller, provider, links, {"seed": 7})
    fetcher.fetch([job.id])
    result = body_of(caller.get(f"/v1/jobs/{ended(job).pk}/result"))
    assert result["result"] == {"seed": 7}
    assert {name: file["content_type"] for name, file in result["files"].items()} == {
        "image": "image/png", "text": "text/plain"
    }  # fmt: skip
    content: Any = caller.get(f"/v1/files/{result['files']['text']['file']}/content")
    assert b"".join(content.streaming_content) == b"words"
    assert content["Content-Disposition"] == 'attachment; filename="text.txt"'
    plain = answered(caller, provider, links)
    fetcher.fetch([plain.id])
    assert set(ended(plain).result or {}) == {"image", "text"}


def test_a_try_that_fails_is_repeated_after_a_pause(caller: Caller, provider: Linking) -> None:
    provider.pages["/b"] = (503, {}, b"")
    job = answered(caller, provider, {"a": f"{provider.url}/a.png", "b": f"{provider.url}/b"})
    tried(job)
    attempt = factories.attempt_of(job)
    assert (attempt.fetch_tries, attempt.verdict, attempt.finished_at) == (1, "succeeded", None)
    assert Evidence.objects.get(kind="fetch").content["error_message"] == "answered 503"
    assert not File.objects.exists(), "of a try that fails nothing is stored"
    assert missed.jobs_to_fetch() == []
    fetcher.fetch([job.id])
    assert factories.attempt_of(job).fetch_tries == 1, "it is not due"
    provider.pages["/b"] = (200, {}, b"x")
    let_time_pass(fetching.PAUSES_SECONDS[0] + 1)
    sweep_calls()
    assert ended(job).state == "completed"


def test_a_result_that_cannot_be_had_fails_the_job_and_not_the_books(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/none"}, cost=4.0)
    for _ in range(len(fetching.PAUSES_SECONDS) + 1):
        before = factories.attempt_of(job).fetch_tries
        fetcher.fetch([job.id])
        until(lambda before=before: Evidence.objects.filter(kind="fetch").count() > before)
        let_time_pass(max(fetching.PAUSES_SECONDS) + 1)
    ended(job)
    assert (job.state, job.error["code"]) == ("failed", "result_unavailable")  # type: ignore[index]
    assert factories.money(caller.tenant) == (1_000 * factories.MICRO, 0)
    attempt = factories.attempt_of(job)
    assert (attempt.verdict, attempt.reported_cost, attempt.links) == ("failed", 4 * factories.MICRO, None)


def test_whoever_was_taken_over_changes_nothing(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    (row,) = fetches.take([job.id], 15)
    assert fetches.take([job.id], 15) == [], "it is being fetched"
    let_time_pass(16)
    (again,) = fetches.take([job.id], 15)
    assert (row["fetch_tries"], again["fetch_tries"]) == (1, 2)
    assert not fetches.renew(row["attempt_id"], 1, 15)
    assert not fetching.paid(row["attempt_id"], 1, {"late": True})
    fetching.unpaid(row["attempt_id"], row["fence"], 1, "late")
    assert fetches.renew(row["attempt_id"], 2, 15)
    assert fetching.paid(row["attempt_id"], 2, {"in": "time"})
    assert not fetching.paid(row["attempt_id"], 2, {"twice": True})
    assert ended(job).result == {"in": "time"}


def test_a_long_fetch_is_kept_from_others(caller: Caller, provider: Linking, settings: Any) -> None:
    settings.LEASE_SECONDS = 0.6
    provider.pause_seconds = 2.0
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    for _ in range(15):
        fetcher.fetch([job.id])
        time.sleep(0.1)
    assert ended(job).state == "completed"
    assert (provider.seen["/a.png"], factories.attempt_of(job).fetch_tries) == (1, 1)


def test_with_every_signal_lost_the_sweep_alone_ends_it(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    let_time_pass(5)
    sweep()
    assert Job.objects.get(pk=job.pk).state == "processing"
    sweep_calls()
    until(lambda: factories.attempt_of(job).fetch_at is None)
    sweep()
    assert Job.objects.get(pk=job.pk).state == "completed"


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
    for tries in range(1, 8):
        (row,) = fetches.take([job.id], 15)
        assert row["fetch_tries"] == tries
        fetching.put_off(row["attempt_id"], row["fence"], tries, "the host is none of hosts")
        let_time_pass(fetching.PUT_OFF_SECONDS + 1)
    (row,) = fetches.take([job.id], 15)
    fetching.unpaid(row["attempt_id"], row["fence"], 8, "answered 503")
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


def test_a_failure_and_a_late_success_owe_nothing(caller: Caller, provider: Linking) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    flight = factories.dispatch(job)
    links = {"file": f"{provider.url}/a.png"}
    results.learn([Finding(flight, Outcome(over=True, verdict="failed", error_code="nsfw", files=links))])
    results.learn([Finding(flight, Outcome(over=True, verdict="succeeded", files=links))])
    assert factories.attempt_of(job).fetch_at is None
    transitions.finish([job.id])
    job.refresh_from_db()
    assert job.state == "failed"
