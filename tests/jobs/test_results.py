"""A result is stored before the job is said to be completed; what a row does not hold is a file."""

import io
import json
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import IntegrityError, connection

from files.models import File, Usage
from jobs import keeping, results, transitions
from jobs.findings import Finding
from jobs.models import Evidence, Job
from tests import factories
from tests.api.conftest import Caller, assert_problem, body_of
from tests.db import execute
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
IMAGE = (b"\x89PNG" + bytes(range(256)), "image/png")


def outcome(**fields: Any) -> Outcome:
    return Outcome(**{"over": True, "verdict": "succeeded", "units": 3.0, **fields})


def completed(caller: Caller, answer: Outcome) -> Job:
    """A job whose upstream answered so, learned as a worker learns it."""
    job = factories.at("assigned", tenant=caller.tenant)
    results.learn([Finding(factories.dispatch(job), answer)])
    transitions.finish([job.id])
    job.refresh_from_db()
    assert job.state == "completed"
    return job


def result_of(caller: Caller, job: Job) -> Any:
    return caller.get(f"/v1/jobs/{job.pk}/result")


def test_a_small_result_stands_with_its_job(caller: Caller) -> None:
    job = completed(caller, outcome(result={"text": "x" * 1_000}))
    assert body_of(result_of(caller, job)) == job.result == {"text": "x" * 1_000}
    assert not File.objects.exists()


def test_a_large_result_is_a_file_and_served_as_json(caller: Caller, settings: Any) -> None:
    settings.MAX_RESULT_BYTES = 1_000
    job = completed(caller, outcome(result={"text": "ü" * 1_000}))
    (file,) = File.objects.all()
    assert job.result == {
        "file": str(file.pk), "url": f"/v1/files/{file.pk}/content", "content_type": "application/json",
        "size": file.size, "sha256": file.sha256,
    }  # fmt: skip
    document = body_of(caller.get(f"/v1/jobs/{job.pk}"))
    assert (document["result"], document["result_url"]) == (job.result, f"/v1/jobs/{job.pk}/result")
    response = result_of(caller, job)
    assert response["Content-Type"] == "application/json"
    assert json.loads(b"".join(response.streaming_content)) == {"text": "ü" * 1_000}
    assert response["ETag"] == f'"{job.version}"'
    assert Usage.objects.get().result_bytes == file.size


def test_what_is_no_json_is_a_file_of_its_own_type(caller: Caller) -> None:
    job = completed(caller, outcome(content=IMAGE))
    response = result_of(caller, job)
    assert (response["Content-Type"], b"".join(response.streaming_content)) == ("image/png", IMAGE[0])
    assert response["Content-Disposition"] == 'attachment; filename="result.png"'
    assert body_of(caller.get(f"/v1/files/{job.result['file']}"))["size"] == len(IMAGE[0])  # type: ignore[index]
    assert "content" not in Evidence.objects.get().content


@pytest.mark.parametrize("names", [results.MARK, results.BEFORE])
def test_an_upstream_cannot_point_at_a_file_by_its_answer(caller: Caller, names: frozenset[str]) -> None:
    victim = body_of(caller.send(b"an input"))
    forged = {name: {**victim, "file": victim["id"], "url": "x"}[name] for name in sorted(names)}
    job = completed(caller, outcome(result=forged))
    response = result_of(caller, job)
    assert json.loads(b"".join(response.streaming_content)) == forged
    other = completed(caller, outcome(result={"file": victim["id"]}))
    assert body_of(result_of(caller, other)) == {"file": victim["id"]}


def test_a_result_that_is_not_kept_any_more_is_gone(caller: Caller) -> None:
    job = completed(caller, outcome(content=IMAGE))
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")
    keeping.clean_files()
    assert_problem(result_of(caller, job), 410, "gone")
    execute("UPDATE files_file SET gone_at = now() - interval '31 days', leaving_at = now() - interval '31 days'")
    keeping.clean_files()
    execute("UPDATE jobs_job SET finished_at = finished_at - interval '40 days'")
    assert not File.objects.exists()
    assert_problem(result_of(caller, job), 410, "gone")
    assert caller.get(f"/v1/jobs/{job.pk}").status_code == 200


def test_a_deleted_or_lost_result_is_gone(caller: Caller) -> None:
    deleted, lost = (completed(caller, outcome(content=IMAGE)) for _ in range(2))
    assert caller.delete(f"/v1/files/{deleted.result['file']}").status_code == 204  # type: ignore[index]
    default_storage.delete(File.objects.get(pk=lost.result["file"]).place)  # type: ignore[index]
    for job in (deleted, lost):
        assert_problem(result_of(caller, job), 410, "gone")


def test_anothers_result_is_none(caller: Caller, caller_of: Any) -> None:
    job = completed(caller, outcome(content=IMAGE))
    assert_problem(result_of(caller_of(), job), 404, "not-found")
    assert_problem(caller_of().get(f"/v1/files/{job.result['file']}"), 404, "not-found")  # type: ignore[index]


def test_a_result_is_kept_although_the_tenants_inputs_fill_all_it_may(caller_of: Any) -> None:
    caller = caller_of(max_file_bytes=5)
    assert caller.send(b"12345").status_code == 201
    completed(caller, outcome(content=IMAGE))


def test_without_its_bytes_nothing_is_learned_and_the_next_try_is_whole(
    caller: Caller, settings: Any, tmp_path: Path
) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    finding = Finding(factories.dispatch(job), outcome(content=IMAGE))
    settings.MEDIA_ROOT = tmp_path / "no folder"
    settings.MEDIA_ROOT.write_text("")
    with pytest.raises(NotADirectoryError):
        results.learn([finding])
    settings.MEDIA_ROOT = tmp_path / "folder"
    assert factories.attempt_of(job).ended_at is None
    assert File.objects.get().stored_at is None
    results.learn([finding])
    assert factories.attempt_of(job).ended_at is not None
    execute("UPDATE files_file SET expires_at = now() - interval '1 second' WHERE stored_at IS NULL")
    keeping.clean_files()
    assert Usage.objects.get().result_bytes == len(IMAGE[0])


def test_what_was_stored_is_not_stored_again_when_it_could_not_be_learned(
    caller: Caller,
) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    finding = Finding(factories.dispatch(job), outcome(content=IMAGE))
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("ALTER TABLE jobs_evidence ADD CONSTRAINT no_answers CHECK (kind <> 'answer')")
    with pytest.raises(IntegrityError, match="no_answers"):
        results.learn([finding])
    execute("ALTER TABLE jobs_evidence DROP CONSTRAINT no_answers")
    results.learn([finding])
    assert File.objects.count() == 1
    assert results._known == {}


def test_a_crash_before_it_is_learned_leaves_a_file_that_expires(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    flight = factories.dispatch(job)
    results.keep(job.id, io.BytesIO(IMAGE[0]), len(IMAGE[0]), "result", IMAGE[1])
    # And here the worker died; another one learns it from the upstream.
    results.learn([Finding(flight, outcome(content=IMAGE))])
    transitions.finish([job.id])
    execute("UPDATE files_file SET expires_at = now() - interval '1 second'")
    keeping.clean_files()
    assert Usage.objects.get().result_bytes == 0


def test_a_failure_has_no_result_to_keep(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    results.learn([Finding(factories.dispatch(job), outcome(verdict="failed", content=IMAGE, error_code="nsfw"))])
    assert not File.objects.exists()


def test_what_needs_no_file_is_learned_although_the_storage_is_away(
    caller: Caller, settings: Any, tmp_path: Path
) -> None:
    large, small = (factories.at("assigned", tenant=caller.tenant) for _ in range(2))
    findings = [Finding(factories.dispatch(large), outcome(content=IMAGE))]
    findings.append(Finding(factories.dispatch(small), outcome(result={"text": "x"})))
    settings.MEDIA_ROOT = tmp_path / "no folder"
    settings.MEDIA_ROOT.write_text("")
    with pytest.raises(NotADirectoryError):
        results.learn(findings)
    assert factories.attempt_of(small).ended_at is not None
    assert factories.attempt_of(large).ended_at is None


def test_what_comes_after_the_end_is_not_stored(caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    flight = factories.dispatch(job)
    results.learn([Finding(flight, outcome(content=IMAGE))])
    results.learn([Finding(flight, outcome(content=IMAGE), "callback")])
    assert File.objects.count() == 1
    assert Evidence.objects.filter(kind="callback").count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_callbacks_at_once_store_one_file(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    finding = Finding(factories.dispatch(job), outcome(content=IMAGE), "callback")
    met = threading.Barrier(2)
    save = default_storage.save

    def slow_save(place: str, content: Any) -> str:
        with suppress(threading.BrokenBarrierError):
            met.wait(0.5)  # until the other one stores too, if it does
        return str(save(place, content))

    monkeypatch.setattr(default_storage, "save", slow_save)

    def told() -> None:
        try:
            results.learn([finding])
        finally:
            connection.close()

    threads = [threading.Thread(target=told) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert File.objects.count() == 1
    assert factories.attempt_of(job).result["file"] == str(File.objects.get().pk)  # type: ignore[index]


def test_of_what_another_process_learned_first_our_file_is_given_up(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = factories.at("assigned", tenant=caller.tenant)
    finding = Finding(factories.dispatch(job), outcome(content=IMAGE))
    save = default_storage.save

    def overtaken(place: str, content: Any) -> str:
        transitions.learn([replace(finding, outcome=outcome(result={"first": True}))])
        return str(save(place, content))

    monkeypatch.setattr(default_storage, "save", overtaken)
    results.learn([finding])
    assert factories.attempt_of(job).result == {"first": True}
    assert File.objects.get().leaving_at is not None
    assert Usage.objects.get().result_bytes == 0


def test_what_was_stored_is_not_remembered_for_ever(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "KNOWN_SECONDS", -1.0)
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("ALTER TABLE jobs_evidence ADD CONSTRAINT no_answers CHECK (kind <> 'answer')")
    for _ in range(2):
        job = factories.at("assigned", tenant=caller.tenant)
        with pytest.raises(IntegrityError, match="no_answers"):
            results.learn([Finding(factories.dispatch(job), outcome(content=IMAGE))])
    assert len(results._known) == 1
    results._known.clear()
    execute("ALTER TABLE jobs_evidence DROP CONSTRAINT no_answers")
