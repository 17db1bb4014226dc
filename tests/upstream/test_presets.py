"""Each preset against a server of the provider's shape: submit, poll and the end, through the adapter over real HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.upstream.calling import call_of, made, short
from tests.upstream.fakes.fal import Fal
from tests.upstream.fakes.openai import OpenAI
from tests.upstream.fakes.replicate import Replicate
from tests.upstream.fakes.runpod import RunPod
from tests.upstream.fakes.server import KEY
from upstream.adapters import adapter, hear
from upstream.answer import Answer
from upstream.calls import Action, Call, Outcome
from upstream.declared import merged

Server = Any  # one of the fakes, which have the same verbs


@dataclass(frozen=True)
class Case:
    """A preset, its fake, what a job of it is, and what its end brings."""

    preset: str
    fake: type[Any]
    payload: Any
    bad_payload: Any
    result: Any
    units: float | None
    why: tuple[str, str]  # of a failure: code, text
    job_type: Any = None
    reference: str = "w1"


CASES = [
    Case(
        "replicate",
        Replicate,
        {"version": "v1", "input": {"prompt": "a cat"}},
        {"version": "v1"},
        ["https://files/1.png"],
        1.5,
        ("failed", "CUDA out of memory"),
    ),
    Case(
        "runpod", RunPod, {"prompt": "a cat"}, "a cat", ["https://files/1.png"], 1.5, ("failed", "CUDA out of memory")
    ),
    Case(
        "fal",
        Fal,
        {"prompt": "a cat"},
        {"promt": "a cat"},
        {"images": [{"url": "https://files/1.png"}], "seed": 1},
        None,
        ("runtime", "CUDA out of memory"),
        {"submit": {"path": "'/fal-ai/flux/dev' + (callback_url == '' ? '' : '?fal_webhook=' + callback_url)"}},
        "fal-ai/flux/w1",
    ),
    Case(
        "openai-batch",
        OpenAI,
        {"input_file_id": "file-1", "endpoint": "/v1/chat/completions"},
        {"input_file_id": "file-0", "endpoint": "/v1/chat/completions"},
        None,
        4,
        ("invalid_json_line", "line 1 is no JSON"),
    ),
]


@pytest.fixture(params=CASES, ids=[case.preset for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def server(case: Case) -> Iterator[Server]:
    fake = case.fake()
    yield fake
    fake.stop()


def call_for(case: Case, server: Server, payload: Any = None, **fields: Any) -> Call:
    block = merged({"preset": case.preset, "base_url": server.url}, case.job_type or {})
    account = {"name": "a1", "credential": KEY, "labels": {}, "vars": {"endpoint": "ep1"}}
    call = call_of(server.url, block, payload=case.payload if payload is None else payload, account=account)
    return replace(call, upstream=block, callback_url="", **fields)


def do(action: Action, case: Case, server: Server, **fields: Any) -> Outcome:
    return made(action, call_for(case, server, reference=case.reference, **fields))


def test_a_submit_is_taken_under_a_reference(case: Case, server: Server) -> None:
    found = made("submit", call_for(case, server))
    assert (short(found), found.reference) == ((False, "", "", ""), case.reference)


def test_work_goes_on_until_it_has_ended(case: Case, server: Server) -> None:
    made("submit", call_for(case, server))
    assert short(do("poll", case, server)) == (False, "", "", "")
    server.starts()
    assert short(do("poll", case, server)) == (False, "", "", "")
    server.succeeds()
    found = do("poll", case, server)
    assert short(found) == (True, "succeeded", "", "")
    assert (found.units, found.usage_problem) == (case.units, "")
    assert found.result == (server.work if case.result is None else case.result)


def test_usage_that_is_missing_is_no_usage_of_nothing(case: Case, server: Server) -> None:
    """Then all that was held is charged and the job is flagged, instead of nothing and nobody told."""
    made("submit", call_for(case, server))
    server.succeeds()
    for name in ("metrics", "executionTime", "request_counts"):
        server.work.pop(name, None)
    if case.preset == "openai-batch":
        server.work["request_counts"] = {"failed": 0}
    found = do("poll", case, server)
    assert (found.verdict, found.units) == ("succeeded", None)
    assert bool(found.usage_problem) is (case.units is not None)
    server.fails()
    assert do("poll", case, server).usage_problem == "", "a failure need not say what it used"


def test_a_failure_says_why(case: Case, server: Server) -> None:
    made("submit", call_for(case, server))
    server.fails()
    found = do("poll", case, server)
    assert (found.over, found.verdict) == (True, "failed")
    assert (found.error_code, found.error_message) == case.why


def test_work_that_was_stopped_there_has_failed(case: Case, server: Server) -> None:
    made("submit", call_for(case, server))
    server.is_stopped()
    assert (do("poll", case, server).over, do("poll", case, server).verdict) == (True, "failed")


@pytest.mark.parametrize("word", ["PAUSED", "", None, 7])
def test_an_unknown_word_is_unknown_and_ends_nothing(case: Case, server: Server, word: Any) -> None:
    made("submit", call_for(case, server))
    server.says(word)
    found = do("poll", case, server)
    assert (found.over, found.verdict, found.result) == (False, "unknown", None)


def test_work_that_is_not_there_any_more_is_unknown(case: Case, server: Server) -> None:
    assert short(do("poll", case, server))[:3] == (False, "unknown", "")


def test_a_cancel_is_asked_for_and_then_known(case: Case, server: Server) -> None:
    made("submit", call_for(case, server))
    found = do("cancel", case, server)
    assert short(found) in {(False, "", "", ""), (True, "failed", "", "cancelled")}
    server.is_stopped()
    assert do("poll", case, server).verdict == "failed"


def test_a_wrong_key_is_the_accounts_fault(case: Case, server: Server) -> None:
    account = {"name": "a1", "credential": "wrong", "labels": {}, "vars": {"endpoint": "ep1"}}
    call = replace(call_for(case, server), account=account, reference=case.reference)
    assert short(made("submit", call))[:3] == (True, "not_executed", "auth")
    assert short(made("poll", call))[:3] == (False, "unknown", "auth")


def test_too_many_requests_are_nobodys_fault(case: Case, server: Server) -> None:
    server.refusal = (429, {"detail": "Request was throttled"}, {"Retry-After": "3"})
    found = made("submit", call_for(case, server))
    assert (short(found)[:3], found.retry_after_ms) == ((True, "not_executed", "busy"), 3_000)
    found = do("poll", case, server)
    assert (short(found)[:3], found.retry_after_ms) == ((False, "unknown", "busy"), 3_000)


def test_a_bad_payload_is_the_tenants_fault(case: Case, server: Server) -> None:
    assert short(made("submit", call_for(case, server, case.bad_payload)))[:3] == (True, "not_executed", "rejected")


def test_an_error_of_the_server_leaves_all_open(case: Case, server: Server) -> None:
    server.refusal = (500, {"detail": "oops"}, {})
    assert short(made("submit", call_for(case, server)))[:2] == (False, "unknown")
    assert short(do("poll", case, server))[:3] == (False, "unknown", "transient")


TOLD: dict[str, list[tuple[Any, str]]] = {
    "replicate": [
        ({"id": "w1", "status": "succeeded", "output": "x", "metrics": {"predict_time": 2}}, "succeeded"),
        ({"id": "w1", "status": "failed", "error": "no"}, "failed"),
        ({"id": "w1", "status": "processing"}, ""),
        ({"id": "w2", "status": "succeeded", "output": "x"}, "unknown"),
    ],
    "runpod": [
        ({"id": "w1", "status": "COMPLETED", "output": "x", "executionTime": 2000}, "succeeded"),
        ({"id": "w1", "status": "FAILED", "error": "no"}, "failed"),
        ({"id": "w2", "status": "COMPLETED", "output": "x"}, "unknown"),
    ],
    "fal": [
        ({"request_id": "w1", "status": "OK", "payload": "x"}, "succeeded"),
        ({"request_id": "w1", "status": "ERROR", "error": "no"}, "failed"),
        ({"request_id": "w1", "status": "?"}, "unknown"),
    ],
    "openai-batch": [],
}


def test_callbacks_are_read_and_their_address_is_sent(case: Case, server: Server) -> None:
    """Where the provider has callbacks: the address goes out with the submit, and what comes back is believed or not."""
    told = TOLD[case.preset]
    call = replace(call_for(case, server), callback_url="https://berth.example/v1/upstream/1/x?y")
    made("submit", call)
    sent = str(server.requests[-1])
    assert (("berth.example" in sent) and ("upstream" in sent)) is bool(told)
    followed = replace(call, reference=case.reference)
    for body, verdict in told:
        found = hear(adapter("http"), followed, Answer(200, {}, body))
        assert found.verdict == verdict, body
        if verdict == "succeeded":
            assert found.result == "x"
