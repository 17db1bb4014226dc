"""Where the answer to a submit is a reference: taken, refused, or nobody knows. Every status, first sending and repeat."""

from dataclasses import replace
from typing import Any

import pytest

from tests.upstream.calling import call_of, made, short
from tests.upstream.provider import Provider, answer_json
from upstream.calls import Outcome

ERROR = {"error": {"code": "E7", "message": "no"}}
GOES_ON = (False, "", "", "")


def submitted(
    provider: Provider, status: int, body: Any, repeat: bool = False, mode: str = "poll", **submit: Any
) -> Outcome:
    provider.answer = body if isinstance(body, bytes) else answer_json(body)
    block = {"path": f"'/status/{status}'", "reference": "response.body.id", "timeout": "2s", **submit}
    return made("submit", call_of(provider.url, {"mode": mode, "submit": block}), repeat)


YES, NO = True, False
REFUSALS = [
    #        first sending                                    a repeat
    (400, (YES, "not_executed", "rejected", "http_400"), (NO, "unknown", "rejected", "http_400")),
    (401, (YES, "not_executed", "auth", "http_401"), (NO, "unknown", "auth", "http_401")),
    (402, (YES, "not_executed", "auth", "http_402"), (NO, "unknown", "auth", "http_402")),
    (403, (YES, "not_executed", "auth", "http_403"), (NO, "unknown", "auth", "http_403")),
    (404, (YES, "not_executed", "rejected", "http_404"), (NO, "unknown", "rejected", "http_404")),
    (422, (YES, "not_executed", "rejected", "http_422"), (NO, "unknown", "rejected", "http_422")),
    (429, (YES, "not_executed", "busy", "http_429"), (NO, "unknown", "busy", "http_429")),
    (503, (YES, "not_executed", "transient", "http_503"), (NO, "unknown", "transient", "http_503")),
    (301, (NO, "unknown", "", "http_301"), (NO, "unknown", "", "http_301")),
    (409, (NO, "unknown", "", "http_409"), (NO, "unknown", "", "http_409")),
    (410, (NO, "unknown", "", "http_410"), (NO, "unknown", "", "http_410")),
    (500, (NO, "unknown", "", "http_500"), (NO, "unknown", "", "http_500")),
    (502, (NO, "unknown", "", "http_502"), (NO, "unknown", "", "http_502")),
    (504, (NO, "unknown", "", "http_504"), (NO, "unknown", "", "http_504")),
]


@pytest.mark.parametrize("mode", ["poll", "callback"])
@pytest.mark.parametrize(("status", "first", "again"), REFUSALS, ids=[str(row[0]) for row in REFUSALS])
def test_a_refusal_says_no_on_a_first_sending_only_and_all_else_may_run(
    provider: Provider, mode: str, status: int, first: Any, again: Any
) -> None:
    for body in ({"id": "t-1"}, {}, None, "text"):
        assert short(submitted(provider, status, body, mode=mode)) == first
        assert short(submitted(provider, status, body, repeat=True, mode=mode)) == again


@pytest.mark.parametrize("mode", ["poll", "callback"])
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize(
    ("told", "reference"), [("t-1", "t-1"), (7, "7"), (7.0, "7"), (0, "0"), ("a/b ü", "a/b ü"), ("x" * 500, "x" * 500)]
)
def test_a_taken_submit_goes_on_under_its_reference(
    provider: Provider, mode: str, repeat: bool, told: Any, reference: str
) -> None:
    for status in (200, 201, 202, 207):
        found = submitted(provider, status, {"id": told}, repeat, mode)
        assert (short(found), found.reference) == (GOES_ON, reference)


@pytest.mark.parametrize("mode", ["poll", "callback"])
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize(
    "told", ["", "  ", None, True, False, 1.5, -1, [], ["t"], {"id": 1}, "x" * 501, "a\nb", "a\u0000b"]
)
def test_a_reference_that_is_none_leaves_the_outcome_unknown(
    provider: Provider, mode: str, repeat: bool, told: Any
) -> None:
    found = submitted(provider, 200, {"id": told}, repeat, mode)
    assert (short(found), found.reference) == ((False, "unknown", "", "empty_reference"), "")


@pytest.mark.parametrize("body", [{}, None, [], "text", b""])
def test_a_reference_that_is_not_there_leaves_the_outcome_unknown(provider: Provider, body: Any) -> None:
    assert short(submitted(provider, 202, body)) == (False, "unknown", "", "empty_reference")


def test_without_a_declared_reference_taken_work_goes_on_without_one(provider: Provider) -> None:
    found = submitted(provider, 204, None, mode="callback", reference=None)
    assert (short(found), found.reference) == (GOES_ON, "")


@pytest.mark.parametrize("repeat", [False, True])
def test_an_error_body_with_a_fine_status_is_not_taken(provider: Provider, repeat: bool) -> None:
    found = submitted(provider, 200, {"id": "t-1", **ERROR}, repeat)
    assert (*short(found), found.error_message) == (False, "unknown", "", "E7", "no")


def test_an_answer_that_cannot_be_read_is_not_taken(provider: Provider) -> None:
    assert short(submitted(provider, 200, b'{"id": "t-1"')) == (False, "unknown", "", "unreadable_answer")


def test_expressions_say_what_is_taken(provider: Provider) -> None:
    ok = {"success": "response.body.code == 0"}
    assert submitted(provider, 200, {"id": "t", "code": 0, "error": "none"}, **ok).verdict == ""
    assert short(submitted(provider, 200, {"id": "t", "code": 9}, **ok)) == (False, "unknown", "", "unknown_answer")
    full = {**ok, "busy": "response.body.code == 5"}
    assert short(submitted(provider, 200, {"code": 5}, **full))[:3] == (True, "not_executed", "busy")
    assert short(submitted(provider, 200, {"code": 5}, True, **full))[:3] == (False, "unknown", "busy")


def test_a_submit_may_say_that_the_work_failed_at_once(provider: Provider) -> None:
    failed = {"failed": "response.body.state == 'dead'", "success": "response.body.state == 'queued'"}
    found = submitted(provider, 200, {"id": "t", "state": "dead", **ERROR}, **failed)
    assert short(found) == (True, "failed", "", "E7")


EXISTS = {"exists": "response.status == 409"}


@pytest.mark.parametrize("repeat", [False, True])
def test_work_that_exists_already_is_adopted(provider: Provider, repeat: bool) -> None:
    found = submitted(provider, 409, {"id": "t-1"}, repeat, **EXISTS)
    assert (short(found), found.reference) == (GOES_ON, "t-1")


def test_work_that_exists_under_no_name_is_unknown(provider: Provider) -> None:
    assert short(submitted(provider, 409, {}, **EXISTS)) == (False, "unknown", "", "empty_reference")


@pytest.mark.parametrize("repeat", [False, True])
def test_where_the_answer_is_the_result_work_that_exists_is_unknown_and_may_run(
    provider: Provider, repeat: bool
) -> None:
    found = submitted(provider, 409, {"id": "t-1"}, repeat, mode="sync", **EXISTS)
    assert short(found) == (False, "unknown", "", "exists")


@pytest.mark.parametrize(("path", "code"), [("/cut", "cut"), ("/hang", "timeout"), ("/not-http", "unreadable_answer")])
def test_without_an_answer_it_may_run(provider: Provider, path: str, code: str) -> None:
    found = submitted(provider, 200, {"id": "t"}, path=f"'{path}'", timeout="200ms")
    assert short(found) == (False, "unknown", "", code)


def test_a_connection_that_is_refused_started_nothing(closed_port: int) -> None:
    call = call_of(f"http://127.0.0.1:{closed_port}", {"mode": "poll", "submit": {"path": "'/'", "reference": "'x'"}})
    assert short(made("submit", call)) == (True, "not_executed", "transient", "connect_failed")
    assert short(made("submit", call, repeat=True)) == (False, "unknown", "transient", "connect_failed")


def test_a_submit_is_sent_once_with_the_callback_address(provider: Provider) -> None:
    provider.answer = answer_json({"id": "t"})
    block = {"path": "'/tasks'", "reference": "response.body.id", "body": "{'hook': callback_url}"}
    call = call_of(provider.url, {"mode": "callback", "submit": block})
    found = made("submit", replace(call, callback_url="https://berth.example/v1/upstream/1/x"))
    assert found.reference == "t"
    assert [sent["body"] for sent in provider.requests] == [b'{"hook":"https://berth.example/v1/upstream/1/x"}']
