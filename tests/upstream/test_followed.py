"""Polls, finds, cancels and callbacks: only what an expression claims is known; the rest is unknown and ends nothing."""

from typing import Any

import pytest

from tests.upstream.calling import call_of, made, short
from tests.upstream.provider import Provider, answer_json
from upstream.calls import Action, Outcome

POLL: dict[str, Any] = {
    "path": "'/tasks/' + reference",
    "running": "response.body.status in ['queued', 'running']",
    "success": "response.body.status == 'done'",
    "partial": "response.body.status == 'partial'",
    "failed": "response.body.status in ['failed', 'cancelled']",
    "progress": "response.body.progress",
    "result": "response.body.output",
    "units": "response.body.units",
    "cost": "response.body.cost",
    "error": "response.body.error",
    "timeout": "2s",
}
FIND = {"path": "'/tasks/any?key=' + dispatch_key", "timeout": "2s"}
FOUND = {**FIND, "reference": "response.body.id"}
DONE = {"id": "t-1", "status": "done", "output": {"n": 1}, "units": 3, "cost": 0.5}


def asked(provider: Provider, action: Action, body: Any, status: int | None = None, **blocks: Any) -> Outcome:
    provider.answer = body if isinstance(body, bytes) else answer_json(body)
    upstream = {"mode": "poll", "poll": POLL, "find": FIND, "cancel": {"path": "'/stop/' + reference"}, **blocks}
    if status is not None:
        upstream[action] = {**upstream[action], "path": f"'/status/{status}'"}
    return made(action, call_of(provider.url, upstream, reference="t-1"))


BOTH: list[Action] = ["poll", "find"]
both = pytest.mark.parametrize("action", BOTH)


@both
@pytest.mark.parametrize("word", ["queued", "running"])
def test_work_that_runs_goes_on(provider: Provider, action: Action, word: str) -> None:
    found = asked(provider, action, {"status": word, "progress": 0.25})
    assert (short(found), found.reference, found.progress) == ((False, "", "", ""), "t-1", 0.25)


@both
@pytest.mark.parametrize(("said", "shown"), [(0, 0), (1, 1), (0.5, 0.5)])
def test_progress_is_from_0_to_1(provider: Provider, action: Action, said: Any, shown: float) -> None:
    assert asked(provider, action, {"status": "running", "progress": said}).progress == shown


@both
@pytest.mark.parametrize("said", [-0.1, 1.01, 100, "0.5", None, True, [0.5], "absent"])
def test_any_other_progress_is_ignored(provider: Provider, action: Action, said: Any) -> None:
    body = {"status": "running"} | ({} if said == "absent" else {"progress": said})
    found = asked(provider, action, body)
    assert (short(found), found.progress) == ((False, "", "", ""), None)


@both
@pytest.mark.parametrize(("word", "verdict"), [("done", "succeeded"), ("partial", "partial")])
def test_a_success_brings_result_units_and_cost(provider: Provider, action: Action, word: str, verdict: str) -> None:
    found = asked(provider, action, {**DONE, "status": word})
    assert short(found) == (True, verdict, "", "")
    assert (found.result, found.units, found.cost, found.usage_problem) == ({"n": 1}, 3, 0.5, "")


@both
def test_a_failure_brings_error_units_and_cost(provider: Provider, action: Action) -> None:
    error = {"code": "oom", "message": "out of memory of k3y-of-a1"}
    found = asked(provider, action, {"status": "failed", "error": error, "units": 1, "cost": 2, "output": {"n": 1}})
    assert (*short(found), found.error_message) == (True, "failed", "", "oom", "out of memory of ***")
    assert (found.result, found.units, found.cost) == (None, 1, 2)


@both
def test_a_failure_need_not_say_what_it_used(provider: Provider, action: Action) -> None:
    found = asked(provider, action, {"status": "cancelled"})
    assert (found.over, found.verdict, found.units, found.usage_problem) == (True, "failed", None, "")


@both
@pytest.mark.parametrize("units", [None, -5, "NaN", 1e300, True])
def test_usage_that_makes_no_sense_does_not_undo_a_success(provider: Provider, action: Action, units: Any) -> None:
    found = asked(provider, action, {**DONE, "units": units})
    assert (found.verdict, found.units, found.cost) == ("succeeded", None, 0.5)
    assert found.usage_problem


@both
def test_a_success_whose_result_cannot_be_read_is_unknown(provider: Provider, action: Action) -> None:
    found = asked(provider, action, {"status": "done", "units": 3})
    assert (short(found), found.result) == ((False, "unknown", "", "mapping_error"), None)


@both
def test_the_result_is_the_body_when_nothing_is_said(provider: Provider, action: Action) -> None:
    poll = {name: source for name, source in POLL.items() if name != "result"}
    assert asked(provider, action, DONE, poll=poll).result == DONE


UNKNOWN: list[tuple[int, Any, str, str]] = [
    (200, {"status": "THROTTLED"}, "", "unknown_answer"),
    (200, {"status": "", "code": "x", "type": "y"}, "", "unknown_answer"),
    (200, {"status": "odd", "error": {"code": "E7"}}, "", "E7"),
    (200, {}, "", "mapping_error"),
    (200, None, "", "mapping_error"),
    (200, "a text", "", "mapping_error"),
    (200, [1], "", "mapping_error"),
    (200, b'{"status": "done"', "", "unreadable_answer"),
    (200, b"", "", "mapping_error"),
    (301, {}, "", "http_301"),
    (400, {}, "", "http_400"),
    (401, {}, "auth", "http_401"),
    (402, {}, "auth", "http_402"),
    (403, {"error": "no"}, "auth", "http_403"),
    (409, {}, "", "http_409"),
    (422, {}, "", "http_422"),
    (429, {}, "busy", "http_429"),
    (500, b'{"status": "don', "transient", "http_500"),
    (502, "<html>", "transient", "http_502"),
    (503, {}, "transient", "http_503"),
    (504, {}, "transient", "http_504"),
]


@both
@pytest.mark.parametrize("case", UNKNOWN, ids=[f"{case[0]}-{str(case[1])[:20]}" for case in UNKNOWN])
def test_what_nothing_claims_is_unknown_and_ends_nothing(
    provider: Provider, action: Action, case: tuple[int, Any, str, str]
) -> None:
    status, body, kind, code = case
    assert short(asked(provider, action, body, status)) == (False, "unknown", kind, code)


def test_a_poll_that_finds_nothing_is_unknown(provider: Provider) -> None:
    assert short(asked(provider, "poll", {"error": "no such task"}, 404)) == (False, "unknown", "", "http_404")


def test_a_find_that_finds_nothing_was_not_executed(provider: Provider) -> None:
    for body in ({"error": "no such key"}, b"", "text", b"{broken"):
        assert short(asked(provider, "find", body, 404)) == (True, "not_executed", "", "missing")


def test_missing_may_be_said_otherwise(provider: Provider) -> None:
    find = {**FIND, "missing": "response.status == 200 && size(response.body.items) == 0"}
    assert short(asked(provider, "find", {"items": []}, find=find))[:2] == (True, "not_executed")
    assert short(asked(provider, "find", {}, 404, find=find)) == (False, "unknown", "", "http_404")
    contrary = {**FIND, "missing": "true"}
    assert short(asked(provider, "find", DONE, find=contrary)) == (False, "unknown", "", "mapping_error")


def test_a_declared_claim_beats_the_default_of_missing(provider: Provider) -> None:
    assert asked(provider, "find", DONE, 404).verdict == "succeeded"


@pytest.mark.parametrize("word", ["running", "done", "failed"])
def test_a_find_tells_the_reference(provider: Provider, word: str) -> None:
    assert asked(provider, "find", {**DONE, "id": 77, "status": word}, find=FOUND).reference == "77"


@both
@pytest.mark.parametrize(
    "poll",
    [
        {"success": "true", "failed": "true"},
        {"success": "true", "running": "true"},
        {"running": "true", "failed": "true"},
        {"partial": "true", "failed": "true"},
    ],
)
def test_contrary_claims_are_no_knowledge(provider: Provider, action: Action, poll: dict[str, str]) -> None:
    assert short(asked(provider, action, DONE, poll={**FIND, **poll})) == (False, "unknown", "", "mapping_error")


@both
def test_a_failure_stands_though_success_could_not_be_read(provider: Provider, action: Action) -> None:
    poll = {**POLL, "success": "size(response.body.output) > 0"}
    assert short(asked(provider, action, {"status": "failed"}, poll=poll)) == (True, "failed", "", "failed")


@both
def test_a_partial_beside_a_success_that_could_not_be_read_is_unknown(provider: Provider, action: Action) -> None:
    poll = {**POLL, "success": "size(response.body.files) > 0"}
    found = asked(provider, action, {**DONE, "status": "partial"}, poll=poll)
    assert short(found) == (False, "unknown", "", "mapping_error")


@both
def test_a_claim_that_is_no_boolean_claims_nothing(provider: Provider, action: Action) -> None:
    poll = {**POLL, "success": "response.body.status"}
    assert short(asked(provider, action, DONE, poll=poll)) == (False, "unknown", "", "mapping_error")


ALL: list[Action] = ["poll", "find", "cancel"]


@pytest.mark.parametrize("action", ALL)
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/cut", "cut"),
        ("/truncated", "cut"),
        ("/hang", "timeout"),
        ("/not-http", "unreadable_answer"),
        ("/large", "answer_too_large"),
    ],
)
def test_without_an_answer_nothing_is_known(provider: Provider, action: Action, path: str, code: str) -> None:
    block = {"path": f"'{path}'", "timeout": "300ms" if path == "/hang" else "2s"}
    assert short(asked(provider, action, DONE, **{action: block})) == (False, "unknown", "", code)
    assert provider.seen[path] == 1


@pytest.mark.parametrize("action", ALL)
def test_a_connection_that_is_refused_ends_nothing(closed_port: int, action: Action) -> None:
    call = call_of(f"http://127.0.0.1:{closed_port}", {action: {"path": "'/'"}, "poll": {"path": "'/'"}})
    assert short(made(action, call)) == (False, "unknown", "transient", "connect_failed")


@pytest.mark.parametrize("action", ALL)
def test_what_is_not_declared_or_cannot_be_built_is_not_sent(provider: Provider, action: Action) -> None:
    assert short(made(action, call_of(provider.url, {}))) == (False, "unknown", "", "mapping_error")
    for path in ("payload.none", "'/' + response.body", "'/a/..'"):
        found = made(action, call_of(provider.url, {action: {"path": path}}))
        assert short(found) == (False, "unknown", "", "mapping_error")
    assert not provider.requests


@pytest.mark.parametrize("action", ALL)
def test_retry_after_and_elapsed_are_carried(provider: Provider, action: Action) -> None:
    provider.extra_headers, provider.pause_seconds = "Retry-After: 9\r\n", 0.05
    found = asked(provider, action, {}, 429)
    assert (found.retry_after_ms, found.error_class) == (9_000, "busy")
    assert 50 <= found.elapsed_ms < 10_000


def test_requests_carry_reference_and_key_encoded_and_the_credential(provider: Provider) -> None:
    upstream = {"poll": POLL, "find": FIND, "cancel": {"method": "DELETE", "path": "'/tasks/' + reference"}}
    call = call_of(provider.url, upstream, reference="a/b c")
    for action in ALL:
        made(action, call)
    assert [(sent["method"], sent["target"]) for sent in provider.requests] == [
        ("GET", "/tasks/a%2Fb%20c"),
        ("GET", "/tasks/any?key=d%2F1"),
        ("DELETE", "/tasks/a%2Fb%20c"),
    ]
    assert {sent["headers"]["authorization"] for sent in provider.requests} == {"Bearer k3y-of-a1"}
    assert {sent["body"] for sent in provider.requests} == {b""}


def test_a_cancel_posts_without_a_body_unless_one_is_declared(provider: Provider) -> None:
    asked(provider, "cancel", {})
    asked(provider, "cancel", {}, cancel={"path": "'/stop'", "body": "{'id': reference}"})
    assert [(sent["method"], sent["body"]) for sent in provider.requests] == [("POST", b""), ("POST", b'{"id":"t-1"}')]
