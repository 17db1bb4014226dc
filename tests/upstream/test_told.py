"""Cancels and callbacks: what was asked for is not over, and what speaks of other work says nothing."""

from typing import Any

import pytest

from tests.upstream.calling import call_of, short
from tests.upstream.provider import Provider
from tests.upstream.test_followed import DONE, POLL, asked
from upstream.adapters import adapter, hear
from upstream.answer import Answer
from upstream.calls import Outcome


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_cancel_that_was_taken_was_asked_for(provider: Provider, status: int) -> None:
    assert short(asked(provider, "cancel", {"status": "running"}, status)) == (False, "", "", "")


STOPS = {"path": "'/stop'", "success": "response.body.status == 'cancelled'"}


def test_a_cancel_that_says_the_session_is_over_ends_it(provider: Provider) -> None:
    assert short(asked(provider, "cancel", {"status": "cancelled"}, cancel=STOPS)) == (True, "failed", "", "cancelled")
    assert short(asked(provider, "cancel", {"status": "stopping"}, cancel=STOPS)) == (False, "", "", "")


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (401, {"status": "?"}, "auth", "http_401"),
        (404, {"status": "?"}, "", "http_404"),
        (409, {"status": "done"}, "", "http_409"),
        (429, {}, "busy", "http_429"),
        (500, {}, "transient", "http_500"),
        (200, {}, "", "mapping_error"),
        (200, b"{", "", "unreadable_answer"),
    ],
)
def test_a_cancel_without_a_usable_answer_is_unknown(
    provider: Provider, status: int, body: Any, kind: str, code: str
) -> None:
    assert short(asked(provider, "cancel", body, status, cancel=STOPS)) == (False, "unknown", kind, code)


def test_a_cancel_that_cannot_be_read_ends_nothing_whatever_its_status(provider: Provider) -> None:
    stops = {"path": "'/stop'", "success": "response.status == 200"}
    assert short(asked(provider, "cancel", {}, cancel=stops))[:2] == (True, "failed")
    assert short(asked(provider, "cancel", b"{", cancel=stops)) == (False, "unknown", "", "unreadable_answer")


def told(body: Any, reference: str = "", callback: Any = None, **fields: Any) -> Outcome:
    upstream = {"mode": "callback", "poll": POLL, "callback": callback}
    answer = Answer(200, {"content-type": "application/json"}, body, **fields)
    return hear(adapter("http"), call_of("http://127.0.0.1:1", upstream, reference=reference), answer)


NAMED = {"reference": "response.body.id"}


def test_a_callback_is_read_as_polls_are() -> None:
    found = told(DONE)
    assert (short(found), found.result, found.units, found.cost) == ((True, "succeeded", "", ""), {"n": 1}, 3, 0.5)
    assert short(told({"status": "failed"}))[:2] == (True, "failed")
    assert told({"status": "running", "progress": 0.5}).progress == 0.5


def test_a_callback_may_be_read_in_its_own_way() -> None:
    own = {"success": "response.headers['content-type'] == 'application/json'", "result": "response.body.data"}
    found = told({"status": "?", "data": 5}, callback=own)
    assert (found.verdict, found.result) == ("succeeded", 5)


def test_a_callback_names_its_work() -> None:
    assert told(DONE, callback=NAMED).reference == "t-1"
    assert told(DONE, "t-1", NAMED).verdict == "succeeded"
    assert told(DONE, "t-1").reference == "t-1"


@pytest.mark.parametrize("body", [DONE, {"status": "done"}, {**DONE, "id": ""}])
def test_a_callback_of_other_work_or_of_none_says_nothing(body: Any) -> None:
    assert short(told(body, "t-2", NAMED)) == (False, "unknown", "", "other_reference")


@pytest.mark.parametrize(
    ("body", "code"), [({"status": "odd"}, "unknown_answer"), ({}, "mapping_error"), (None, "mapping_error")]
)
def test_a_callback_that_nothing_claims_is_unknown(body: Any, code: str) -> None:
    assert short(told(body)) == (False, "unknown", "", code)


def test_a_callback_that_cannot_be_read_is_unknown() -> None:
    assert short(told(None, readable=False)) == (False, "unknown", "", "unreadable_answer")
    assert short(told(DONE, callback={"succes": "true"})) == (False, "unknown", "", "mapping_error")
