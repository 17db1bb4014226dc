"""The blocks poll, find, cancel and callback, compiled: once per content, each mistake named by its field."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.upstream.calling import HEADERS, call_of, short
from upstream.adapters import Adapter, ask, hear
from upstream.answer import Answer
from upstream.calls import Call, Outcome
from upstream.following import compile_callback, compile_cancel, compile_find, compile_poll
from upstream.spec import SpecError

POLL = {"path": "'/x'", "running": "true", "success": "false"}


@pytest.mark.parametrize("compiled", [compile_poll, compile_find, compile_cancel, compile_callback])
def test_a_block_is_compiled_once_per_content(compiled: Callable[[Any], Any]) -> None:
    upstream = {"headers": HEADERS, "poll": POLL, "find": POLL, "cancel": {"path": "'/x'"}, "callback": {}}
    assert compiled(upstream) is compiled(dict(reversed(upstream.items())))


def test_what_find_and_callback_do_not_say_is_as_in_poll() -> None:
    upstream = {"poll": POLL, "find": {"path": "'/f'", "success": "true"}, "callback": {"failed": "true"}}
    find, told = compile_find(upstream).says, compile_callback(upstream).says
    assert [str(said and said.source) for said in (find.running, find.success, find.failed)] == ["true", "true", "None"]
    assert [str(said and said.source) for said in (told.running, told.success, told.failed)] == [
        "true",
        "false",
        "true",
    ]


def test_what_is_usual() -> None:
    upstream = {"poll": POLL, "find": {"path": "'/f'"}, "cancel": {"path": "'/c'"}}
    poll, find, cancel = compile_poll(upstream), compile_find(upstream), compile_cancel(upstream)
    assert [(block.method, block.timeout_ms, block.body) for block in (poll, find, cancel)] == [
        ("GET", 10_000, None),
        ("GET", 10_000, None),
        ("POST", 10_000, None),
    ]
    assert compile_callback(upstream).confirm is True
    assert compile_callback({"callback": {"confirm": False}}).confirm is False


MISTAKES: list[tuple[Callable[[Any], Any], dict[str, Any], str]] = [
    (compile_poll, {}, "poll"),
    (compile_poll, {"poll": []}, "poll"),
    (compile_poll, {"poll": {"success": "true"}}, "poll.path"),
    (compile_poll, {"poll": {**POLL, "succes": "true"}}, "poll.succes"),
    (compile_poll, {"poll": {**POLL, "missing": "true"}}, "poll.missing"),
    (compile_poll, {"poll": {**POLL, "success": "respons.status"}}, "poll.success"),
    (compile_poll, {"poll": {**POLL, "path": "response.body"}}, "poll.path"),
    (compile_poll, {"poll": {**POLL, "timeout": "5"}}, "poll.timeout"),
    (compile_poll, {"poll": POLL, "headers": {"X": "response"}}, "headers.X"),
    (compile_find, {"poll": POLL}, "find"),
    (compile_find, {"find": {}}, "find.path"),
    (compile_find, {"find": {"path": "'/'", "fallback": "5s"}}, "find.fallback"),
    (compile_find, {"find": {"path": "'/'", "missing": "1 +"}}, "find.missing"),
    (compile_find, {"find": {"path": "'/'"}, "poll": {"success": "x"}}, "poll.success"),
    (compile_cancel, {}, "cancel"),
    (compile_cancel, {"cancel": {"path": "'/'", "failed": "true"}}, "cancel.failed"),
    (compile_cancel, {"cancel": {"path": "'/'", "method": "STOP"}}, "cancel.method"),
    (compile_callback, {"callback": {"path": "'/'"}}, "callback.path"),
    (compile_callback, {"callback": {"confirm": "yes"}}, "callback.confirm"),
    (compile_callback, {"callback": {"reference": "reference +"}}, "callback.reference"),
]


@pytest.mark.parametrize(("compiled", "upstream", "field"), MISTAKES)
def test_a_mistake_is_named_by_its_field(compiled: Callable[[Any], Any], upstream: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as mistake:
        compiled(upstream)
    assert mistake.value.field == field


class OnlySubmits:
    async def submit(self, call: Call, repeat: bool) -> Outcome:
        return Outcome(over=True, verdict="unknown" if repeat else "succeeded", reference=call.reference)

    async def close(self) -> None: ...


@pytest.mark.parametrize("action", ["poll", "find", "cancel"])
def test_an_adapter_that_cannot_follow_leaves_the_outcome_unknown(action: Any) -> None:
    own: Adapter = OnlySubmits()  # type: ignore[assignment]  # what others wrote before there was more
    found = asyncio.run(ask(own, action, call_of("", {})))
    assert short(found) == (False, "unknown", "", "not_supported")
    assert short(hear(own, call_of("", {}), Answer(200, {}))) == (False, "unknown", "", "not_supported")
    assert asyncio.run(ask(own, "submit", call_of("", {}))).verdict == "succeeded"
