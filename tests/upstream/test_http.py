"""The http adapter against a server that answers, hangs, cuts and lies."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.upstream.provider import Provider, answer_json
from upstream.adapters import UnknownAdapterError, adapter
from upstream.calls import Call, Outcome


def make_call(base_url: str, path: str = "'/run'", payload: Any = None, credential: str = "k3y", **submit: Any) -> Call:
    headers = {"Authorization": "'Bearer ' + account.credential", "X-Kind": "'pool'"}
    return Call(
        key="d/1",
        payload={"seconds": 2} if payload is None else payload,
        job={"id": "j1", "type": "clip", "attempt": 1, "metadata": {}},
        tenant={"name": "acme"},
        account={"name": "a1", "credential": credential, "labels": {}, "vars": {"model": "x y"}},
        base_url=base_url,
        upstream={
            "headers": headers,
            "submit": {"path": path, "headers": {"Idempotency-Key": "dispatch_key"}} | submit,
        },
        callback_url="http://127.0.0.1/back",
    )


def submit(*calls: Call, repeat: bool = False) -> list[Outcome]:
    async def run() -> list[Outcome]:
        http = adapter("http")
        try:
            return [await http.submit(call, repeat) for call in calls]
        finally:
            await http.close()

    return asyncio.run(run())


def test_a_call_is_sent_as_declared(provider: Provider) -> None:
    call = make_call(
        provider.url + "/base/",
        path="'/v1/' + account.vars.model + '?key=' + dispatch_key",
        body="{'input': payload, 'n': payload.seconds / 4, 'hook': callback_url}",
        method="put",
        headers={"x-kind": "job.type", "X-Attempt": "job.attempt", "X-None": "null", "Authorization": None},
    )
    [found] = submit(call)
    assert found.verdict == "succeeded"
    [sent] = provider.requests
    assert (sent["method"], sent["target"]) == ("PUT", "/base/v1/x%20y?key=d%2F1")
    assert json.loads(sent["body"]) == {"input": {"seconds": 2}, "n": 0.5, "hook": "http://127.0.0.1/back"}
    headers = sent["headers"]
    assert headers["x-kind"] == "clip"  # the type's wins over the pool's, whatever the case
    assert headers["x-attempt"] == "1"
    assert headers["content-type"] == "application/json"
    assert "x-none" not in headers
    assert "authorization" not in headers


def test_each_sending_of_a_key_has_the_same_body_to_the_letter(provider: Provider) -> None:
    names = [f"n{number}" for number in range(20)]
    body = "{" + ", ".join(f"'{name}': payload" for name in names) + "}"
    call = make_call(provider.url, body=body, payload=dict.fromkeys(names, 1))
    submit(*[call] * 5, repeat=True)
    assert len({sent["body"] for sent in provider.requests}) == 1


def test_defaults_post_the_payload_with_the_pools_headers(provider: Provider) -> None:
    [found] = submit(make_call(provider.url, payload={"n": 2**100, "f": 2.0}))
    [sent] = provider.requests
    assert (sent["method"], sent["target"]) == ("POST", "/run")
    assert sent["body"] == b'{"f":2.0,"n":1267650600228229401496703205376}'
    assert sent["headers"]["authorization"] == "Bearer k3y"
    assert sent["headers"]["idempotency-key"] == "d/1"
    assert (found.over, found.verdict, found.status) == (True, "succeeded", 200)
    assert found.result == {"status": "done", "units": 3}


def test_a_get_has_no_body(provider: Provider) -> None:
    submit(make_call(provider.url, method="GET"))
    assert provider.requests[0]["body"] == b""
    assert "content-type" not in provider.requests[0]["headers"]


def test_an_answer_is_read_with_retry_after_and_elapsed(provider: Provider) -> None:
    provider.extra_headers = "Retry-After: 3\r\n"
    provider.pause_seconds = 0.05
    [found] = submit(make_call(provider.url, path="'/status/429'"))
    assert (found.verdict, found.error_class, found.retry_after_ms) == ("not_executed", "busy", 3_000)
    assert 50 <= found.elapsed_ms < 10_000


def test_headers_of_an_answer_are_named_in_lower_case(provider: Provider) -> None:
    provider.extra_headers = "X-Units: 5\r\nX-Many: a\r\nX-Many: b\r\n"
    fields = {"units": "int(response.headers['x-units'])", "result": "response.headers['x-many']"}
    [found] = submit(make_call(provider.url, **fields))
    assert (found.units, found.result) == (5, "a, b")


@pytest.mark.parametrize(
    ("path", "code", "over", "verdict"),
    [
        ("/cut", "cut", False, "unknown"),
        ("/truncated", "cut", False, "unknown"),
        ("/hang", "timeout", False, "unknown"),
        ("/not-http", "unreadable_answer", False, "unknown"),
        ("/large", "answer_too_large", False, "unknown"),
    ],
)
def test_what_is_no_complete_answer(provider: Provider, path: str, code: str, over: bool, verdict: str) -> None:
    [found] = submit(make_call(provider.url, path=f"'{path}'", timeout="300ms" if path == "/hang" else "5s"))
    assert (found.error_code, found.over, found.verdict, found.status) == (code, over, verdict, None)
    assert provider.seen[path] == 1


def test_a_refused_connection_is_not_executed_at_first_and_unknown_on_a_repeat(closed_port: int) -> None:
    call = make_call(f"http://127.0.0.1:{closed_port}")
    [found] = submit(call)
    assert (found.over, found.verdict, found.error_class) == (True, "not_executed", "transient")
    [found] = submit(call, repeat=True)
    assert (found.over, found.verdict, found.error_class) == (False, "unknown", "transient")


def test_a_host_that_does_not_exist_was_not_reached() -> None:
    [found] = submit(make_call("http://does-not-exist.invalid", timeout="2s"))
    assert (found.error_code, found.verdict) == ("connect_failed", "not_executed")


def test_tls_that_fails_was_not_reached(provider: Provider) -> None:
    [found] = submit(make_call(provider.url.replace("http:", "https:"), timeout="600ms"))
    assert (found.error_code, found.verdict) == ("connect_failed", "not_executed")
    assert not provider.requests


def test_a_broken_kept_connection_is_not_sent_again(provider: Provider) -> None:
    calls = [make_call(provider.url, path=p, method="PUT") for p in ("'/run'", "'/cut-when-reused'")]
    found = submit(*calls)
    assert [o.verdict for o in found] == ["succeeded", "unknown"]
    assert provider.seen["/cut-when-reused"] == 1


def test_a_redirect_is_not_followed(provider: Provider) -> None:
    provider.extra_headers = "Location: /elsewhere\r\n"
    [found] = submit(make_call(provider.url, path="'/status/301'"))
    assert (found.verdict, found.status) == ("unknown", 301)
    assert len(provider.requests) == 1


def test_cookies_of_one_call_do_not_reach_the_next(provider: Provider) -> None:
    provider.extra_headers = "Set-Cookie: who=acme; Path=/\r\n"
    submit(make_call(provider.url), make_call(provider.url))
    assert all("cookie" not in sent["headers"] for sent in provider.requests)


def test_a_204_is_a_success_without_a_result(provider: Provider) -> None:
    [found] = submit(make_call(provider.url, path="'/status/204'"))
    assert (found.verdict, found.result) == ("succeeded", None)


def test_an_upstream_that_repeats_the_credential_does_not_leak_it(provider: Provider) -> None:
    provider.answer = answer_json({"error": "the key k3y-0f-acme is bad"})
    [found] = submit(make_call(provider.url, path="'/status/401'", credential="k3y-0f-acme"))
    assert found.error_class == "auth"
    assert found.error_message == "the key *** is bad"


NOT_BUILT: list[tuple[str, Callable[[str], Call]]] = [
    ("missing key", lambda url: make_call(url, path="'/x/' + payload.none")),
    ("a header with a line break", lambda url: make_call(url, credential="a\r\nX-Evil: 1")),
    ("a header with NUL", lambda url: make_call(url, headers={"X": "payload.s"}, payload={"s": "a\x00"})),
    ("a header beyond ASCII", lambda url: make_call(url, headers={"X": "payload.s"}, payload={"s": "ü"})),
    ("a header that is a map", lambda url: make_call(url, headers={"X": "payload"})),
    ("a path of dots", lambda url: make_call(url, path="'/a/' + payload.p + '/b'", payload={"p": ".."})),
    ("a path that is a number", lambda url: make_call(url, path="payload.seconds")),
    ("a fragment", lambda url: make_call(url, path="'/a#b'")),
    ("a framing header", lambda url: make_call(url, headers={"Content-Length": "'3'"})),
    ("an unknown field", lambda url: make_call(url, succes="true")),
    ("an unknown method", lambda url: make_call(url, method="FETCH")),
    ("a bare timeout", lambda url: make_call(url, timeout="60")),
    ("an unknown name", lambda url: make_call(url, body="reference")),
    ("a scheme", lambda _: make_call("file:///etc")),
    ("a user in the address", lambda url: make_call(url.replace("//", "//me:pw@"))),
    ("no host", lambda _: make_call("")),
    ("NaN", lambda url: make_call(url, payload=float("nan"))),
    ("another mode", lambda url: Call("k", {}, {}, {}, {}, url, {"mode": "lease", "submit": {"path": "'/x'"}})),
    ("no submit", lambda url: Call("k", {}, {}, {}, {}, url, {})),
]


@pytest.mark.parametrize(("name", "build"), NOT_BUILT, ids=[name for name, _ in NOT_BUILT])
def test_a_request_that_cannot_be_built_is_not_sent(
    provider: Provider, name: str, build: Callable[[str], Call]
) -> None:
    [found] = submit(build(provider.url))
    assert (found.over, found.verdict, found.error_class) == (True, "not_executed", "rejected")
    assert found.error_code == "mapping_error"
    assert found.error_message
    assert not provider.requests


def test_an_adapter_that_is_not_installed_is_named() -> None:
    with pytest.raises(UnknownAdapterError, match="nowhere"):
        adapter("nowhere")
