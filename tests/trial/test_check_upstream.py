"""`check_upstream` against a provider of a known shape: what it asks, what it concludes, what it calls a problem."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from files import storing
from jobs import admission
from jobs.models import Job, JobType
from pool.models import Pool, Resource, UpstreamAccount
from tests import factories
from tests.trial.conftest import PAYLOAD, check
from tests.upstream.fakes.replicate import Replicate

pytestmark = pytest.mark.django_db


def test_what_cannot_be_there_is_asked_for_and_nothing_is_sent(
    server: Replicate, pool: Pool, job_type: JobType
) -> None:
    said, problem = check(pool)
    assert not problem
    assert "acct-001 image  compile\n    submit, poll, cancel" in said
    [(method, path, _)] = server.requests
    assert (method, path[:28]) == ("GET", "/v1/predictions/berth-check-")
    assert f"image  poll  GET {server.url}/v1/predictions/berth-check-" in said
    assert "-> 404\n    unknown, session not known to be over, code http_404" in said
    assert not server.works
    assert "No problem: what is declared compiles, and what was never sent is not known there, as it should be." in said


def test_where_nothing_can_be_asked_it_says_so(pool: Pool) -> None:
    pool.upstream = {"adapter": "http", "base_url": pool.upstream["base_url"]}
    pool.save()
    factories.make_job_type(pool, name="image", upstream={"mode": "sync", "submit": {"path": "'/run'"}})
    said, problem = check(pool)
    assert not problem
    assert said.splitlines()[-1].startswith("No problem: what is declared compiles. There is nothing to ask for")


@pytest.mark.parametrize("payload", ['{"text": 5}', '{"inputs": [{"text": 5}]}', "[]"])
def test_a_payload_that_the_api_would_refuse_is_refused_in_its_words_before_anything_is_sent(
    server: Replicate, pool: Pool, job_type: JobType, payload: str
) -> None:
    a_text = {"type": "object", "properties": {"text": {"type": "string"}}}
    job_type.payload_schema = {**a_text, "properties": {**a_text["properties"], "inputs": {"items": a_text}}}
    job_type.save()
    said, problem = check(pool, "--submit", payload)
    with pytest.raises(admission.InvalidField) as refused:
        factories.submit(factories.make_tenant(), job_type, payload=json.loads(payload))
    assert problem
    assert said == f"--submit: {refused.value}; nothing was sent"
    assert not server.requests


def test_what_repeats_itself_is_said_once_and_counted(server: Replicate, pool: Pool, job_type: JobType) -> None:
    server.at_request[8] = server.succeeds
    said, problem = check(pool, "--submit", PAYLOAD)
    assert not problem
    assert (
        said.count("  poll  "),
        "running, reference w1\n    the same 5 times more\nacct-001 image  poll" in said,
    ) == (2, True), said


def test_an_upstream_that_crashes_on_what_it_is_sent_is_named(server: Replicate, pool: Pool, job_type: JobType) -> None:
    server.refusal = (500, {"detail": "KeyError: 'prompt'"}, {})
    said, problem = check(pool, "--submit", PAYLOAD, "--patience", "0.1")
    assert problem
    assert "the upstream itself failed (submit -> 500), perhaps on what it was sent; or what is declared" in said


def test_a_payload_is_sent_once_and_followed_to_its_end(server: Replicate, pool: Pool, job_type: JobType) -> None:
    server.at_request[4] = server.succeeds
    said, problem = check(pool, "--type", "image", "--submit", PAYLOAD)
    assert not problem
    assert "submit  POST " in said
    assert "-> 201\n    running, reference w1" in said
    assert "poll  GET " in said
    assert (
        "succeeded, session over, reference w1, units 1.5, result of 23 bytes\nNo problem: the payload was sent" in said
    )
    assert [method for method, _, _ in server.requests] == ["POST", "GET", "GET", "GET"]
    assert server.requests[0][2] == json.loads(PAYLOAD)
    assert not Job.objects.exists()


def test_files_of_a_payload_are_sent_as_a_job_would_send_them(
    server: Replicate, pool: Pool, job_type: JobType, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    tenant = factories.make_tenant()
    row = storing.put(tenant.pk, io.BytesIO(b"x"), kind="input", size=1, name="", content_type="a/b", keep_seconds=60)
    server.at_request[3] = server.succeeds
    payload = {"version": "v1", "input": {"image": {"file": str(row["id"])}}}
    said, problem = check(pool, "--submit", json.dumps(payload))
    assert not problem, said
    image = server.requests[0][2]["input"]["image"]
    assert image.startswith(f"https://berth.example/v1/files/{row['id']}/content?token=")


@pytest.fixture
def image_type(pool: Pool, job_type: JobType) -> Pool:
    return job_type.pool


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("8e977f14-b240-4d63-84c8-523db5d17678", "is not there any more"),
        ("no-id", "is not there any more"),
        ("nowhere", "set PUBLIC_URL"),
    ],
)
def test_a_file_that_cannot_be_sent_is_refused_before_anything_is(
    server: Replicate, image_type: Pool, settings: Any, file: str, why: str
) -> None:
    settings.PUBLIC_URL = "" if file == "nowhere" else "https://berth.example"
    said, problem = check(image_type, "--submit", json.dumps({"input": {"image": {"file": file}}}))
    assert problem
    assert why in said
    assert not server.requests


def test_a_payload_may_stand_in_a_file_and_a_failure_is_read_too(
    server: Replicate, pool: Pool, job_type: JobType, tmp_path: Path
) -> None:
    (tmp_path / "payload.json").write_text(PAYLOAD)
    server.at_request[3] = server.fails
    said, problem = check(pool, "--submit", f"@{tmp_path}/payload.json")
    assert not problem
    assert "end\n    failed, session over, code failed, 'CUDA out of memory', reference w1, units 0.5" in said


def test_what_does_not_end_in_time_is_a_problem(pool: Pool, job_type: JobType) -> None:
    said, problem = check(pool, "--submit", PAYLOAD, "--patience", "0.2")
    assert problem
    assert "PROBLEM: it had not ended after 0.2 s; what runs there goes on" in said


def test_a_payload_is_sent_only_where_a_session_is_free(pool: Pool, job_type: JobType, server: Replicate) -> None:
    factories.at("processing", job_type, factories.make_tenant())
    assert Resource.objects.get().state == "busy"
    said, problem = check(pool, "--submit", PAYLOAD)
    assert problem
    assert "every session is at work; drain one" in said
    assert not server.requests


def test_an_account_that_is_refused_is_a_problem_and_its_credential_is_not_shown(pool: Pool, job_type: JobType) -> None:
    account = UpstreamAccount.objects.get()
    account.credential = "wr0ng-secret"
    account.save()
    job_type.upstream["poll"] = {"path": "'/v1/predictions/' + reference + '?token=' + account.credential"}
    job_type.save()
    said, problem = check(pool)
    assert problem
    assert "PROBLEM: the account is refused" in said
    assert "?token=***" in said
    assert "wr0ng-secret" not in said


def test_a_mapping_that_believes_in_what_was_never_sent_is_a_problem(pool: Pool, job_type: JobType) -> None:
    job_type.upstream["poll"] = {"success": "response.status < 500", "result": "response.body"}
    job_type.save()
    said, problem = check(pool)
    assert problem
    assert "PROBLEM: the mapping believes in something that was never sent" in said


@pytest.mark.parametrize("poll", [{"success": "respons.status == 200"}, {"succes": "true"}])
def test_what_cannot_be_compiled_is_a_problem_and_nothing_is_asked(
    server: Replicate, pool: Pool, job_type: JobType, poll: dict[str, str]
) -> None:
    job_type.upstream["poll"] = poll
    job_type.save()
    said, problem = check(pool)
    assert problem
    assert f"PROBLEM: poll.{next(iter(poll))}: " in said
    assert not server.requests


def test_an_upstream_that_is_away_is_a_problem(pool: Pool, job_type: JobType, server: Replicate) -> None:
    server.stop()
    said, problem = check(pool)
    assert problem
    assert "-> connect_failed" in said
    assert "PROBLEM: the upstream could not be reached" in said


def test_a_key_that_cannot_be_there_is_missing(pool: Pool, job_type: JobType) -> None:
    job_type.upstream["find"] = {"path": "'/v1/predictions/' + dispatch_key"}
    job_type.save()
    said, problem = check(pool)
    assert not problem
    assert "find  GET " in said
    assert "not_executed, session over, code missing" in said


def test_a_balance_is_asked_for(pool: Pool, job_type: JobType, server: Replicate) -> None:
    pool.upstream["headers"] = {"Authorization": "'Bearer ' + account.credential"}
    pool.upstream["balance"] = {"path": "'/v1/predictions/w1'", "value": "response.body.left"}
    pool.save()
    said, problem = check(pool)
    assert problem
    assert "acct-001  balance\n    PROBLEM: the upstream answered 404" in said
    server.take(left=12.5)
    said, problem = check(pool)
    assert not problem
    assert "acct-001  balance\n    12.5 credits left" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--type", "none"], "has no job type 'none'"),
        (["--account", "none"], "has no account 'none'"),
        (["--submit", "{"], "--submit is JSON, or @FILE"),
        (["--submit", "@/no/such"], "--submit is JSON, or @FILE"),
    ],
)
def test_a_wrong_argument_is_named(pool: Pool, job_type: JobType, arguments: list[str], why: str) -> None:
    said, problem = check(pool, *arguments)
    assert problem
    assert why in said


def test_a_payload_is_of_one_type(pool: Pool, job_type: JobType) -> None:
    factories.make_job_type(pool, name="other")
    said, problem = check(pool, "--submit", PAYLOAD)
    assert problem
    assert "--submit needs --type: one of image, other" in said


def test_a_pool_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match="there is no pool 'nowhere'"):
        call_command("check_upstream", "nowhere")


def test_a_callback_alone_cannot_be_followed(pool: Pool, job_type: JobType) -> None:
    pool.upstream = {name: value for name, value in pool.upstream.items() if name != "preset"}
    pool.upstream["headers"] = {"Authorization": "'Bearer ' + account.credential"}
    pool.save()
    submit: dict[str, Any] = {"path": "'/v1/predictions'", "reference": "response.body.id"}
    job_type.upstream = {"mode": "callback", "submit": submit, "callback": {"success": "true"}}
    job_type.save()
    said, problem = check(pool, "--submit", PAYLOAD)
    assert problem
    assert "PROBLEM: it cannot be asked for; what runs there goes on" in said
