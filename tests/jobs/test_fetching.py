"""Results behind links are stored before the job is said to be completed; the session waits for none of it."""

import asyncio
import threading
import time
from typing import Any

import pytest
from django.core.files.storage import default_storage

from files.models import File, Usage
from jobs import collecting, fetcher, fetching, results, transitions
from jobs.findings import Finding
from jobs.models import Evidence, Job
from jobs.queries import fetches, missed
from jobs.sweep import sweep, sweep_calls
from tests import factories
from tests.api.conftest import Caller, body_of
from tests.db import let_time_pass
from tests.jobs.fetch_world import IMAGE, answered, ended, tried, until
from tests.linking import Linking
from upstream.calls import Outcome
from upstream.expressions import ExpressionError
from upstream.result_files import LinkRefused

pytestmark = pytest.mark.django_db(transaction=True)


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
    assert not File.objects.filter(leaving_at=None).exists(), "of a try that fails nothing is kept"
    assert Usage.objects.get().result_bytes == 0
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
    (first,) = fetching.take([job.id], 5)
    assert fetching.take([job.id], 5) == [], "it is being fetched"
    let_time_pass(16)
    (second,) = fetching.take([job.id], 5)
    key = first.attempt_id
    assert (first.row["fetch_tries"], second.row["fetch_tries"]) == (1, 2)
    assert fetches.renew({key: 1}, 15) == set()
    assert not fetching.paid(key, 1, {"late": True})
    fetching.unpaid(first, 1, "late")
    fetching.put_off(first, 1, "late")
    fetching.left(key, 1)
    assert not Evidence.objects.filter(kind="fetch").exists(), "nor does it count as a try"
    assert fetches.renew({key: 2}, 15) == {key}
    assert fetching.paid(key, 2, {"in": "time"})
    assert not fetching.paid(key, 2, {"twice": True})
    assert ended(job).result == {"in": "time"}


def test_what_is_taken_up_is_a_flight_like_others(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    (flight,) = fetching.take([job.id], 1)
    assert (flight.way, flight.repeat, flight.waited_out) == ("wait", False, False)


def test_no_more_is_taken_up_than_there_is_room_for(
    caller: Caller, provider: Linking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "AT_ONCE", 2)
    let_go = threading.Event()
    provider.pages["/a.png"] = (200, {"Content-Type": "image/png"}, lambda: let_go.wait(20) and IMAGE)
    jobs = [answered(caller, provider, {"file": f"{provider.url}/a.png"}) for _ in range(5)]
    fetcher.fetch([job.id for job in jobs])
    assert sum(factories.attempt_of(job).fetch_tries for job in jobs) == 2
    sweep_calls()
    assert sum(factories.attempt_of(job).fetch_tries for job in jobs) == 2, "the others may be taken up elsewhere"
    let_go.set()
    for job in jobs:
        assert ended(job).state == "completed", "what there was no room for comes next"


def test_a_restart_is_no_try_and_many_are_one_too_many(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    for _ in range(fetching.MOST_LOST):
        assert len(fetching.take([job.id], 1)) == 1
        let_time_pass(16)
    assert factories.attempt_of(job).verdict == "succeeded"
    assert fetching.take([job.id], 1) == []
    ended(job)
    assert (job.state, job.error["code"]) == ("failed", "result_unavailable")  # type: ignore[index]
    assert "lost 10 times" in factories.attempt_of(job).error_message


def test_after_restarts_a_failed_try_is_the_first(caller: Caller, provider: Linking) -> None:
    job = answered(caller, provider, {"file": f"{provider.url}/none"})
    for _ in range(6):
        fetching.take([job.id], 1)
        let_time_pass(16)
    tried(job)
    assert Evidence.objects.get(kind="fetch").content["try"] == 1
    assert factories.attempt_of(job).verdict == "succeeded"


def test_a_process_that_stops_hands_on_what_it_had_taken_up(caller: Caller, provider: Linking) -> None:
    provider.pause_seconds = 20.0
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    fetcher.stop()
    assert missed.jobs_to_fetch() == [job.id]
    provider.pause_seconds = 0.0
    fetcher.fetch([job.id])
    assert ended(job).state == "completed"


def test_a_storage_slower_than_the_lease_finishes(
    caller: Caller, provider: Linking, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LEASE_SECONDS = 1.2  # its renewals may be late by more than half a second
    save, begun = default_storage.save, []

    def slow_save(place: str, content: Any) -> str:
        begun.append(place)
        time.sleep(2.5)
        return str(save(place, content))

    monkeypatch.setattr(default_storage, "save", slow_save)
    jobs = [answered(caller, provider, {"file": f"{provider.url}/a.png"}) for _ in range(fetcher.AT_ONCE + 4)]
    fetcher.fetch([job.id for job in jobs])
    for job in jobs:
        assert ended(job).state == "completed"
        assert factories.attempt_of(job).fetch_tries == 1
    assert len(begun) == len(jobs)


def test_all_files_of_a_result_are_bounded_together(
    caller: Caller, provider: Linking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "MOST_RESULT_BYTES", 2 * len(IMAGE) + 1)
    links = {str(place): f"{provider.url}/a.png" for place in range(3)}
    job = answered(caller, provider, links, max_size="4kB")
    tried(job)
    assert Evidence.objects.get(kind="fetch").content["error_message"] == "more than 1 bytes"
    assert Usage.objects.get().result_bytes == 0
    whole = answered(caller, provider, dict(list(links.items())[:2]), max_size="4kB")
    fetcher.fetch([whole.id])
    assert ended(whole).state == "completed"


def test_what_waits_on_disk_is_bounded_in_the_order_of_asking() -> None:
    seen: list[tuple[str, int]] = []

    async def all_of_them() -> None:
        room, inside = collecting.Room(10), 0

        async def one(name: str, size: int) -> None:
            nonlocal inside
            async with room.of(size):
                inside += size
                seen.append((name, inside))
                await asyncio.sleep(0.01)
                inside -= size

        await asyncio.gather(one("a", 6), one("b", 6), one("c", 1), one("d", 10))

    asyncio.run(all_of_them())
    assert [name for name, _ in seen] == ["a", "b", "c", "d"]
    assert max(inside for _, inside in seen) <= 10


def test_only_our_own_words_are_shown_of_what_went_wrong() -> None:
    assert collecting.said(LinkRefused("the host x is not one of hosts")) == "the host x is not one of hosts"
    for error in (ValueError("https://cdn.example/?token=secret"), ExpressionError("Bearer secret"), OSError("secret")):
        assert "secret" not in collecting.said(error)


def test_a_long_fetch_is_kept_from_others(caller: Caller, provider: Linking, settings: Any) -> None:
    settings.LEASE_SECONDS = 1.2
    provider.pause_seconds = 3.0
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    for _ in range(20):
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
