"""Asking a provider what an account has left: a readable number is a reading, everything else is none, and says why."""

from typing import Any

import pytest

from tests.upstream.provider import Provider, answer_json
from upstream.balances import Said, ask, compile_balance
from upstream.calls import Call
from upstream.spec import SpecError

HEADERS = {"Authorization": "'Bearer ' + account.credential"}
SECRET = "k3y-of-a1"


def call_of(base_url: str, path: str = "'/left'", headers: Any = None, **balance: Any) -> Call:
    block = {"path": path, "value": "response.body.left", **balance}
    return Call(
        key="",
        payload=None,
        job={},
        tenant={},
        account={"name": "a1", "credential": SECRET, "labels": {}, "vars": {"org": "o1"}},
        base_url=base_url,
        upstream={"headers": HEADERS if headers is None else headers, "balance": block},
    )


def said(*calls: Call) -> list[Said]:
    return ask(calls, deadline_seconds=5)


def test_it_is_asked_as_declared(provider: Provider) -> None:
    provider.answer = answer_json({"left": 12.5})
    call = call_of(
        provider.url,
        "'/org/' + account.vars.org",
        method="POST",
        body="{'who': account.name}",
        headers={"X-Key": "'x'"},
    )
    assert said(call) == [Said(12_500_000)]
    [sent] = provider.requests
    assert (sent["method"], sent["target"], sent["body"]) == ("POST", "/org/o1", b'{"who":"a1"}')


def test_it_is_got_with_the_credential_when_nothing_is_said(provider: Provider) -> None:
    provider.answer = answer_json({"left": 0})
    assert said(call_of(provider.url)) == [Said(0)]
    [sent] = provider.requests
    assert (sent["method"], sent["body"], sent["headers"]["authorization"]) == ("GET", b"", f"Bearer {SECRET}")


@pytest.mark.parametrize(
    ("left", "micro"),
    [(7, 7_000_000), (-2.5, -2_500_000), (0.1234567, 123_456), (-0.0000001, -1), (10**9, 10**15)],
)
def test_a_number_is_a_reading_rounded_down(provider: Provider, left: Any, micro: int) -> None:
    provider.answer = answer_json({"left": left})
    assert said(call_of(provider.url)) == [Said(micro)]


@pytest.mark.parametrize("left", ["12", None, True, [1], {"n": 1}, 1e12, -1e12])
def test_anything_else_is_no_reading(provider: Provider, left: Any) -> None:
    provider.answer = answer_json({"left": left})
    [found] = said(call_of(provider.url))
    assert found.left is None
    assert found.problem.startswith("the answer has no balance")


def test_a_text_may_be_made_a_number_by_the_expression(provider: Provider) -> None:
    provider.answer = answer_json({"left": "12.5"})
    assert said(call_of(provider.url, value="double(response.body.left)")) == [Said(12_500_000)]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("'/status/402'", "the upstream answered 402"),
        ("'/status/500'", "the upstream answered 500"),
        ("'/status/302'", "the upstream answered 302"),
        ("'/cut'", "the connection was cut"),
        ("'/hang'", "no answer in time"),
        ("'/not-http'", "not HTTP"),
        ("'/large'", "larger than is read"),
        ("'/..'", "it cannot be asked"),
        ("account.vars.none", "it cannot be asked"),
    ],
)
def test_what_is_no_answer_is_no_reading(provider: Provider, path: str, why: str) -> None:
    provider.answer = answer_json({"left": 5})
    [found] = said(call_of(provider.url, path, timeout="300ms"))
    assert found.left is None
    assert why in found.problem


def test_an_answer_that_cannot_be_read_is_no_reading(provider: Provider) -> None:
    provider.answer = b'{"left": 5'
    assert said(call_of(provider.url)) == [Said(None, "the answer promises JSON that cannot be read")]


def test_the_credential_is_in_no_problem(provider: Provider) -> None:
    provider.answer = answer_json({"left": 5})
    [found] = said(call_of(provider.url, f"'/' + account.vars['{SECRET}']"))
    assert found.left is None
    assert SECRET not in found.problem


def test_who_is_not_answered_by_the_deadline_has_said_nothing_and_holds_up_nobody(provider: Provider) -> None:
    provider.answer = answer_json({"left": 5})
    slow, fast = call_of(provider.url, "'/hang'", timeout="20s"), call_of(provider.url)
    assert ask([slow, fast], deadline_seconds=0.5) == [Said(None, "there was no time left to ask"), Said(5_000_000)]


def test_only_some_are_asked_at_once(provider: Provider) -> None:
    provider.answer, provider.pause_seconds = answer_json({"left": 5}), 0.05
    assert said(*[call_of(provider.url) for _ in range(25)]) == [Said(5_000_000)] * 25
    assert provider.most_at_once == 10


@pytest.mark.parametrize(
    ("upstream", "field"),
    [
        ({}, "balance"),
        ({"balance": {"value": "1"}}, "balance.path"),
        ({"balance": {"path": "'/'"}}, "balance.value"),
        ({"balance": {"path": "'/' + dispatch_key", "value": "1"}}, "balance.path"),
        ({"balance": {"path": "'/'", "value": "payload"}}, "balance.value"),
        ({"balance": {"path": "'/'", "value": "1"}, "headers": {"X-Job": "job.id"}}, "headers.X-Job"),
    ],
)
def test_a_mistake_is_named_by_its_field(upstream: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as mistake:
        compile_balance(upstream)
    assert mistake.value.field == field


def test_a_header_of_every_call_can_be_left_out() -> None:
    block = {"path": "'/'", "value": "1", "headers": {"x-job": None}}
    assert (
        compile_balance({"balance": block, "headers": {"X-Job": "job.id", **HEADERS}}).headers[0][0] == "Authorization"
    )
