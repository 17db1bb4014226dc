"""Did it happen? The whole table: every status on a first sending and on a repeat, and what the expressions change."""

from dataclasses import replace
from typing import Any

import pytest

from upstream.answer import Answer
from upstream.calls import Call, Outcome
from upstream.mapping import no_answer, not_sent, read_answer
from upstream.request import scope_of
from upstream.spec import compile_submit
from upstream.wording import NoAnswer, redacted

CALL = Call(
    key="d-1",
    payload={"seconds": 2},
    job={"id": "j", "type": "clip", "attempt": 1, "metadata": {}},
    tenant={"name": "acme"},
    account={"name": "a1", "credential": "s3cret/+", "labels": {}, "vars": {}},
    base_url="http://127.0.0.1:1",
    upstream={},
)
BODY = {"status": "done", "units": 3}
# As in the example configuration.
DECLARED: dict[str, Any] = {
    "success": "response.status == 200 && response.body.status == 'done'",
    "partial": "response.status == 200 && response.body.status == 'partial'",
    "failed": "response.status == 200 && response.body.status == 'failed'",
    "rejected": "response.status in [400, 404, 422]",
    "busy": "response.status == 429",
    "not_executed": "response.status == 503",
    "result": "response.body",
    "units": "response.body.units",
    "error": "response.body.error",
}


def outcome(status: int, body: Any = None, repeat: bool = False, **fields: Any) -> Outcome:
    answer = fields.pop("answer", None) or Answer(status, {"content-type": "application/json"}, body)
    call = replace(CALL, upstream={"submit": {"path": "'/run'", **fields}})
    return read_answer(compile_submit(call.upstream), call, scope_of(call), answer, repeat)


def short(found: Outcome) -> tuple[bool, str, str]:
    return found.over, found.verdict, found.error_class


YES, NO = True, False
#        status    first sending                          a repeat
TABLE = [
    (200, (YES, "succeeded", ""), (YES, "succeeded", "")),
    (201, (YES, "succeeded", ""), (YES, "succeeded", "")),
    (204, (YES, "succeeded", ""), (YES, "succeeded", "")),
    (301, (YES, "unknown", ""), (NO, "unknown", "")),
    (400, (YES, "not_executed", "rejected"), (NO, "unknown", "rejected")),
    (401, (YES, "not_executed", "auth"), (NO, "unknown", "auth")),
    (403, (YES, "not_executed", "auth"), (NO, "unknown", "auth")),
    (404, (YES, "not_executed", "rejected"), (NO, "unknown", "rejected")),
    (409, (YES, "unknown", ""), (NO, "unknown", "")),
    (422, (YES, "not_executed", "rejected"), (NO, "unknown", "rejected")),
    (429, (YES, "not_executed", "busy"), (NO, "unknown", "busy")),
    (500, (YES, "unknown", ""), (NO, "unknown", "")),
    (502, (NO, "unknown", ""), (NO, "unknown", "")),
    (503, (YES, "not_executed", "transient"), (NO, "unknown", "transient")),
    (504, (NO, "unknown", ""), (NO, "unknown", "")),
]


@pytest.mark.parametrize(("status", "first", "again"), TABLE, ids=[str(row[0]) for row in TABLE])
def test_every_status_by_default(status: int, first: tuple[bool, str, str], again: tuple[bool, str, str]) -> None:
    assert short(outcome(status)) == first
    assert short(outcome(status, repeat=True)) == again


@pytest.mark.parametrize(("status", "first", "again"), TABLE[3:], ids=[str(row[0]) for row in TABLE[3:]])
@pytest.mark.parametrize("body", [None, "a text", {"error": "no"}, []], ids=["empty", "text", "map", "list"])
def test_declared_expressions_agree_with_the_defaults_whatever_the_body(
    status: int, first: tuple[bool, str, str], again: tuple[bool, str, str], body: Any
) -> None:
    assert short(outcome(status, body, **DECLARED)) == first
    assert short(outcome(status, body, repeat=True, **DECLARED)) == again


NO_ANSWERS: list[tuple[NoAnswer, tuple[bool, str, str], tuple[bool, str, str]]] = [
    ("connect_failed", (YES, "not_executed", "transient"), (NO, "unknown", "transient")),
    ("timeout", (NO, "unknown", ""), (NO, "unknown", "")),
    ("cut", (NO, "unknown", ""), (NO, "unknown", "")),
    ("unreadable_answer", (NO, "unknown", ""), (NO, "unknown", "")),
    ("answer_too_large", (NO, "unknown", ""), (NO, "unknown", "")),
]


@pytest.mark.parametrize(("why", "first", "again"), NO_ANSWERS, ids=[row[0] for row in NO_ANSWERS])
def test_no_complete_answer(why: NoAnswer, first: tuple[bool, str, str], again: tuple[bool, str, str]) -> None:
    assert short(no_answer(why, repeat=False)) == first
    assert short(no_answer(why, repeat=True)) == again
    assert no_answer(why, repeat=False).error_code == why


def test_a_success_brings_result_and_units() -> None:
    found = outcome(200, BODY, **DECLARED)
    assert (found.verdict, found.result, found.units, found.error_code) == ("succeeded", BODY, 3, "")


def test_a_partial_success_brings_result_and_units() -> None:
    body = {"status": "partial", "units": 1.5}
    found = outcome(200, body, **DECLARED)
    assert (found.over, found.verdict, found.result, found.units) == (True, "partial", body, 1.5)


def test_a_200_that_says_no_has_failed() -> None:
    found = outcome(200, {"status": "failed", "units": 2, "error": "out of memory"}, **DECLARED)
    assert short(found) == (True, "failed", "")
    assert (found.error_code, found.error_message, found.result, found.units) == ("failed", "out of memory", None, 2)


@pytest.mark.parametrize(
    ("said", "code"), [({"rejected": "true"}, "rejected"), ({"busy": "true"}, "busy"), ({"auth": "true"}, "auth")]
)
def test_a_200_that_refuses_has_the_code_of_what_it_means(said: dict[str, str], code: str) -> None:
    found = outcome(200, {"status": "no"}, success="false", **said)
    assert (found.verdict, found.error_class, found.error_code) == ("not_executed", code, code)
    assert outcome(200, {"error": {"code": "own"}}, success="false", **said).error_code == "own"


def test_a_200_that_says_no_on_a_repeat_has_failed_too() -> None:
    assert short(outcome(200, {"status": "failed"}, repeat=True, **DECLARED)) == (True, "failed", "")


@pytest.mark.parametrize("body", [None, "a text", [], {"other": 1}], ids=["empty", "text", "list", "map"])
def test_a_200_the_expressions_cannot_read_is_unknown(body: Any) -> None:
    found = outcome(200, body, **DECLARED)
    assert (*short(found), found.error_code) == (True, "unknown", "", "mapping_error")


def test_a_success_whose_result_cannot_be_read_is_unknown() -> None:
    found = outcome(200, BODY, result="response.body.no")
    assert (found.over, found.verdict, found.error_code) == (True, "unknown", "mapping_error")
    assert (found.result, found.units) == (None, None)


@pytest.mark.parametrize("units", ["response.body.no", "'many'", "-1", "1e300"])
def test_units_that_make_no_sense_do_not_undo_a_success(units: str) -> None:
    found = outcome(200, BODY, units=units)
    assert (found.over, found.verdict, found.result, found.units) == (True, "succeeded", BODY, None)
    assert found.usage_problem


def test_what_the_call_took_of_the_account_is_kept_apart_from_what_was_used() -> None:
    body = {"status": "done", "units": 3, "credits": 0.25}
    found = outcome(200, body, units="response.body.units", cost="response.body.credits")
    assert (found.units, found.cost, found.usage_problem) == (3, 0.25, "")
    failed = outcome(
        200, {**body, "status": "failed"}, failed="response.body.status == 'failed'", cost="response.body.credits"
    )
    assert (failed.verdict, failed.cost) == ("failed", 0.25)
    refused = outcome(422, body, cost="response.body.credits")
    assert (refused.verdict, refused.cost) == ("not_executed", None)


def test_a_failure_need_not_say_what_it_used() -> None:
    found = outcome(200, {"status": "failed"}, failed="response.body.status == 'failed'", units="response.body.units")
    assert (found.verdict, found.units, found.usage_problem) == ("failed", None, "")


def test_a_condition_that_is_no_boolean_is_not_a_success() -> None:
    found = outcome(200, BODY, success="response.body.status")
    assert (found.verdict, found.error_code) == ("unknown", "mapping_error")


def test_units_of_null_are_none_given() -> None:
    found = outcome(200, {"units": None}, units="response.body.units")
    assert (found.units, found.usage_problem) == (None, "response.body.units: there is none")


@pytest.mark.parametrize(("status", "verdict"), [(200, "unknown"), (500, "unknown"), (429, "not_executed")])
def test_broken_json_is_never_a_success(status: int, verdict: str) -> None:
    answer = Answer(status, {"content-type": "application/json"}, None, readable=False)
    ways: list[dict[str, Any]] = [{}, DECLARED, {"success": "response.status == 200"}]
    for fields in ways:
        assert outcome(status, answer=answer, **fields).verdict == verdict


def test_expressions_can_say_otherwise() -> None:
    full = "has(response.body.code) && response.body.code == 'full'"
    assert short(outcome(200, {"code": "full"}, success="false", busy=full)) == (True, "not_executed", "busy")
    assert short(outcome(502, not_executed="response.status == 502")) == (True, "not_executed", "transient")
    assert short(outcome(403, rejected="response.status == 403")) == (True, "not_executed", "rejected")
    assert short(outcome(404, rejected="response.status == 400")) == (True, "unknown", "")
    assert short(outcome(409, success="response.status == 409")) == (True, "succeeded", "")
    assert short(outcome(200, {"code": "full"}, True, success="false", busy=full)) == (False, "unknown", "busy")


def test_partial_comes_before_the_success_that_is_only_a_default() -> None:
    assert outcome(200, BODY, partial="response.body.units == 3").verdict == "partial"
    assert outcome(200, BODY, success="true", partial="true").verdict == "succeeded"


def test_expressions_see_the_call_beside_the_answer() -> None:
    found = outcome(
        200, BODY, success="response.body.units == payload.seconds + 1", result="dispatch_key + tenant.name"
    )
    assert (found.verdict, found.result) == ("succeeded", "d-1acme")


ERRORS: list[tuple[Any, str, str]] = [
    ({"error": "no"}, "http_422", "no"),
    ({"error": {"code": "E7", "message": "too long"}}, "E7", "too long"),
    ({"code": 7, "detail": "wrong"}, "7", "wrong"),
    ("plain\n  text", "http_422", "plain text"),
    ({"error": " ", "detail": "wrong"}, "http_422", "wrong"),
    ({"code": " ", "error": "\t\n"}, "http_422", "the upstream answered 422"),
    (" " * 40_000, "http_422", "the upstream answered 422"),
    (None, "http_422", "the upstream answered 422"),
    ([1], "http_422", "the upstream answered 422"),
]


@pytest.mark.parametrize(("body", "code", "message"), ERRORS)
def test_an_error_is_found_where_upstreams_put_it(body: Any, code: str, message: str) -> None:
    found = outcome(422, body)
    assert (found.error_code, found.error_message) == (code, message)


def test_a_declared_error_is_read_and_an_unreadable_one_does_no_harm() -> None:
    assert outcome(422, {"why": {"code": "x", "message": "y"}}, error="response.body.why").error_code == "x"
    assert outcome(422, "text", error="response.body.why").error_code == "http_422"


def test_an_error_is_bounded_and_never_holds_the_credential() -> None:
    found = outcome(
        422, {"error": {"code": "s3cret/+", "message": "x" * 290 + "s3cret/+ and s3cret%2F%2B" + "y" * 999}}
    )
    assert len(found.error_message) == 300
    assert "s3cr" not in found.error_message + found.error_code
    assert "s3cr" not in redacted("a s3cret%2F%2B b", CALL, 99)
    nested = replace(CALL, account={"credential": {"id": "me", "keys": ["abc", "abcd"]}})
    assert redacted("abcd abc x", nested, 99) == "*** *** x"


def test_what_cannot_be_built_was_not_sent() -> None:
    assert short(not_sent("x", CALL, repeat=False)) == (True, "not_executed", "rejected")
    assert short(not_sent("x", CALL, repeat=True)) == (False, "unknown", "rejected")
    assert not_sent("no s3cret/+", CALL, repeat=False).error_message == "no ***"


def test_retry_after_is_carried() -> None:
    assert outcome(429, answer=Answer(429, {"retry-after": "7"})).retry_after_ms == 7_000


def test_a_partial_success_beside_a_success_that_could_not_be_read_is_unknown() -> None:
    assert (
        outcome(200, {"state": "partial"}, success="response.body.status == 'done'", partial="true").verdict
        == "unknown"
    )


def test_an_unreadable_answer_to_a_repeat_says_nothing_of_the_first_sending() -> None:
    assert short(outcome(200, "a text", repeat=True, **DECLARED)) == (False, "unknown", "")
