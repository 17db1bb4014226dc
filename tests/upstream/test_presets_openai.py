"""What the presets of OpenAI-like providers know beyond the common shape: batches that are found, chats that end oddly."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.upstream.calling import call_of, made, short
from tests.upstream.fakes.openai import OpenAI, error
from tests.upstream.fakes.server import KEY
from upstream.calls import Action, Outcome
from upstream.declared import merged

ACCOUNT = {"name": "a1", "credential": KEY, "labels": {}, "vars": {}}
BATCH = {"input_file_id": "file-1", "endpoint": "/v1/chat/completions"}


@pytest.fixture
def server() -> Iterator[OpenAI]:
    fake = OpenAI()
    yield fake
    fake.stop()


def batch(server: OpenAI, action: Action, key: str = "d1", reference: str = "w1") -> Outcome:
    block = merged({"preset": "openai-batch", "base_url": server.url}, {})
    return made(action, call_of(server.url, block, key=key, payload=BATCH, account=ACCOUNT, reference=reference))


def test_a_lost_answer_is_found_among_the_batches(server: OpenAI) -> None:
    for key in ("d0", "d1", "d2"):
        batch(server, "submit", key)
    server.works["w3"]["metadata"] = None
    found = batch(server, "find", reference="")
    assert (short(found), found.reference) == ((False, "", "", ""), "w2")


def test_a_batch_that_was_never_taken_is_missing(server: OpenAI) -> None:
    batch(server, "submit", "other")
    assert short(batch(server, "find")) == (True, "not_executed", "", "missing")


def test_among_too_many_batches_nothing_is_said_to_be_missing(server: OpenAI) -> None:
    for number in range(101):
        server.take(object="batch", status="completed", metadata={"dispatch_key": f"x{number}"})
    assert short(batch(server, "find"))[:2] == (False, "unknown")


COUNTS = {"total": 4, "completed": 3, "failed": 1}


@pytest.mark.parametrize(
    ("status", "counts", "output", "verdict"),
    [
        ("completed", {"total": 4, "completed": 4, "failed": 0}, "file-2", "succeeded"),
        ("completed", {"total": 0, "completed": 0, "failed": 0}, None, "succeeded"),
        ("completed", COUNTS, "file-2", "partial"),
        ("completed", {"total": 4, "completed": 0, "failed": 4}, None, "failed"),
        ("expired", COUNTS, "file-2", "partial"),
        ("expired", COUNTS, None, "failed"),
        ("cancelled", COUNTS, "file-2", "partial"),
        ("cancelled", COUNTS, None, "failed"),
        ("failed", COUNTS, None, "failed"),
        ("cancelling", COUNTS, None, ""),
        ("finalizing", COUNTS, None, ""),
    ],
)
def test_a_batch_ends_by_what_came_of_its_requests(
    server: OpenAI, status: str, counts: dict[str, int], output: str | None, verdict: str
) -> None:
    batch(server, "submit")
    server.work.update(status=status, request_counts=counts, output_file_id=output)
    found = batch(server, "poll")
    assert (found.over, found.verdict) == (verdict != "", verdict)
    if verdict:
        assert found.units == counts["completed"]


def test_progress_of_a_batch_is_that_of_its_requests(server: OpenAI) -> None:
    batch(server, "submit")
    assert batch(server, "poll").progress is None
    server.starts()
    assert batch(server, "poll").progress == 0.25


def chat(server: OpenAI, status: int, body: Any) -> Outcome:
    server.completion = (status, body)
    block = merged({"preset": "openai-chat", "base_url": server.url}, {})
    return made("submit", call_of(server.url, block, payload={"model": "m", "messages": []}, account=ACCOUNT))


def said(*reasons: Any) -> dict[str, Any]:
    choices = [{"index": n, "message": {"content": "hi"}, "finish_reason": reason} for n, reason in enumerate(reasons)]
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    return {"id": "c1", "object": "chat.completion", "choices": choices, "usage": usage}


@pytest.mark.parametrize("reasons", [["stop"], ["tool_calls"], ["stop", "function_call"]])
def test_a_chat_that_was_finished_succeeded(server: OpenAI, reasons: list[str]) -> None:
    found = chat(server, 200, said(*reasons))
    assert (short(found), found.units, found.result) == ((True, "succeeded", "", ""), 12, said(*reasons))


def test_a_chat_that_was_cut_at_its_length_is_partial(server: OpenAI) -> None:
    found = chat(server, 200, said("stop", "length"))
    assert (found.verdict, found.units) == ("partial", 12)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, said("content_filter")),
        (200, said("length", "content_filter")),
        (400, error("content_filter", "the prompt was filtered")),
    ],
)
def test_what_the_content_filter_refused_is_the_tenants_fault(server: OpenAI, status: int, body: Any) -> None:
    assert short(chat(server, status, body)) == (True, "not_executed", "rejected", "content_filter")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "rate_limit_exceeded", "busy"),
        (429, "insufficient_quota", "auth"),
        (429, "billing_hard_limit_reached", "auth"),
        (401, "invalid_api_key", "auth"),
        (403, "unsupported_country_region_territory", "auth"),
        (400, "context_length_exceeded", "rejected"),
        (404, "model_not_found", "rejected"),
        (503, "overloaded", "transient"),
    ],
)
def test_a_refusal_is_the_fault_of_whom_it_names(server: OpenAI, status: int, code: str, kind: str) -> None:
    found = chat(server, status, error(code, "no"))
    assert (*short(found), found.error_message) == (True, "not_executed", kind, code, "no")


@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_error_of_the_server_is_unknown(server: OpenAI, status: int) -> None:
    found = chat(server, status, error("server_error", "oops"))
    assert (found.verdict, found.over) == ("unknown", status == 500)


@pytest.mark.parametrize("body", [{}, {"choices": []}, said(None), said("interrupted"), error("odd", "in a 200"), []])
def test_a_chat_that_is_none_is_unknown(server: OpenAI, body: Any) -> None:
    found = chat(server, 200, body)
    assert (found.verdict, found.result) == ("unknown", None)
