"""Never success, never silence: what no expression claims is unknown, an error body with a fine status among it."""

from typing import Any

import pytest

from tests.upstream.test_mapping import BODY, DECLARED, outcome, short


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"error": "out of memory"}, "unknown_answer", "out of memory"),
        ({"error": {"code": "E7", "message": "no"}, "output": [1]}, "E7", "no"),
        ({"errors": [{"code": "E8", "message": "none"}]}, "E8", "none"),
        ({"errors": {"code": "E9"}}, "E9", "no declared expression says what this answer means"),
    ],
)
def test_an_error_body_with_a_fine_status_is_no_success_and_no_failure(body: Any, code: str, message: str) -> None:
    for repeat in (False, True):
        found = outcome(200, body, repeat)
        assert (found.verdict, found.error_code, found.error_message) == ("unknown", code, message)
        assert found.over is not repeat


@pytest.mark.parametrize("error", [None, False, "", [], {}, 0])
def test_an_error_that_is_none_is_no_error_body(error: Any) -> None:
    assert outcome(200, {"error": error, "errors": error}).verdict == "succeeded"


def test_an_error_body_that_is_declared_a_success_is_one() -> None:
    assert outcome(200, {"error": "none"}, success="response.body.error == 'none'").verdict == "succeeded"


@pytest.mark.parametrize("body", [{"status": "THROTTLED"}, {"status": "", "code": "x"}])
def test_a_200_that_nothing_claims_is_unknown(body: Any) -> None:
    assert (*short(outcome(200, body, **DECLARED)), outcome(200, body, **DECLARED).error_code) == (
        True,
        "unknown",
        "",
        "unknown_answer",
    )
    assert short(outcome(200, body, repeat=True, **DECLARED)) == (False, "unknown", "")


def test_a_200_of_which_only_failed_is_declared_is_else_a_success() -> None:
    failed = "response.body.status == 'failed'"
    assert outcome(200, {"status": "failed"}, failed=failed).verdict == "failed"
    assert outcome(200, {"status": "any"}, failed=failed).verdict == "succeeded"


def test_contrary_claims_are_unknown() -> None:
    found = outcome(200, BODY, success="true", failed="true")
    assert (found.over, found.verdict, found.error_code) == (True, "unknown", "mapping_error")
    assert outcome(200, BODY, partial="true", failed="true").verdict == "unknown"


def test_work_that_exists_is_unknown_and_may_still_run() -> None:
    for repeat in (False, True):
        found = outcome(409, BODY, repeat, exists="response.status == 409")
        assert (*short(found), found.error_code) == (False, "unknown", "", "exists")


def test_an_exists_that_cannot_be_read_claims_nothing() -> None:
    assert short(outcome(422, "text", exists="response.body.code == 'dup'")) == (True, "not_executed", "rejected")


def test_a_failed_that_could_not_be_read_leaves_a_success_that_is_only_a_default_unknown() -> None:
    failed = "response.body.state == 'failed'"
    assert short(outcome(200, BODY, failed=failed)) == (True, "unknown", "")
    assert short(outcome(200, BODY, failed=failed, success="true")) == (True, "succeeded", "")


def test_a_failed_stands_though_success_could_not_be_read() -> None:
    found = outcome(200, {"status": "failed"}, success="size(response.body.output) > 0", failed=DECLARED["failed"])
    assert short(found) == (True, "failed", "")
