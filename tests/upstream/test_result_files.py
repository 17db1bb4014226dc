"""What an answer carries beside JSON, and where links may lead."""

from dataclasses import replace
from typing import Any

import pytest

from upstream import answer
from upstream.calls import Call, Outcome
from upstream.request import scope_of
from upstream.result_files import (
    LinkRefused,
    NoLinks,
    allowed,
    carried,
    compile_result_files,
    links,
    links_again,
)
from upstream.spec import SpecError

BASE = "https://api.example/v1"
BODY = {"id": 7, "url": f"{BASE}/a.png", "all": ["https://cdn.example/1", "https://cdn.example/2"]}


def call(**block: Any) -> Call:
    upstream = {"result_files": {"urls": "response.body.url", "hosts": ["cdn.example"], **block}} if block else {}
    return Call("key", {}, {}, {}, {}, BASE, upstream)


def read(body: Any, kind: str = "application/json") -> answer.Answer:
    return replace(answer.read(200, {"content-type": kind}, b""), body=body)


def after(asked: Call, outcome: Outcome, told: answer.Answer) -> Outcome:
    return carried(outcome, asked, scope_of(asked), told)


def success(told: answer.Answer) -> Outcome:
    return Outcome(over=True, verdict="succeeded", units=2, result=told.body)


def test_a_body_of_another_kind_is_kept_as_it_came() -> None:
    told = answer.read(200, {"content-type": "image/png"}, b"\x89PNG\xff")
    assert (told.body, told.readable, told.raw) == (None, True, b"\x89PNG\xff")
    assert after(call(), success(told), told).content == (b"\x89PNG\xff", "image/png")
    failed = replace(success(told), verdict="failed")
    assert after(call(), failed, told) == failed


@pytest.mark.parametrize(
    ("kind", "raw"), [("application/json", b'{"a":1}'), ("text/plain", b"text"), ("", b""), ("application/json", b"{")]
)
def test_of_json_text_and_nothing_no_bytes_are_kept(kind: str, raw: bytes) -> None:
    assert answer.read(200, {"content-type": kind}, raw).raw == b""


@pytest.mark.parametrize(
    ("urls", "found"),
    [
        ("response.body.url", {"file": f"{BASE}/a.png"}),
        ("response.body.all", {"0": "https://cdn.example/1", "1": "https://cdn.example/2"}),
        ("{'image': response.body.url}", {"image": f"{BASE}/a.png"}),
    ],
)
def test_links_are_a_text_a_list_or_a_map(urls: str, found: dict[str, str]) -> None:
    told = read(BODY)
    outcome = after(call(urls=urls), success(told), told)
    assert (outcome.files, outcome.verdict, outcome.units) == (found, "succeeded", 2)
    assert outcome.result is None, "a body with links that end is no result"
    assert after(call(urls=urls), replace(success(told), result={"seed": 1}), told).result == {"seed": 1}


@pytest.mark.parametrize(
    "urls", ["response.body.none", "7", "['x']", "response.body.id", "['https://other.example/a']", "{'': 'x'}"]
)
def test_where_what_is_declared_finds_no_links_the_answer_is_kept_to_be_read_again(urls: str) -> None:
    told = read(BODY)
    outcome = after(call(urls=urls), success(told), told)
    assert (outcome.verdict, outcome.over, outcome.error_code) == ("succeeded", True, "result_unavailable")
    assert (outcome.result, outcome.files, outcome.units) == (None, None, 2)
    assert outcome.unread == {"status": 200, "headers": {"content-type": "application/json"}, "body": BODY}
    mended = call(urls="response.body.url")
    block = compile_result_files(mended.upstream)
    assert block is not None
    assert links_again(block, mended, outcome.unread) == {"file": f"{BASE}/a.png"}
    stated = after(call(urls=urls), replace(success(told), result={"seed": 1}), told)
    assert stated.result == {"seed": 1}


@pytest.mark.parametrize("urls", ["[]", "''", "{}", "null"])
def test_a_success_that_made_no_file_has_failed(urls: str) -> None:
    told = read(BODY)
    outcome = after(call(urls=urls), success(told), told)
    assert (outcome.verdict, outcome.over, outcome.error_code) == ("failed", True, "result_unavailable")
    assert (outcome.result, outcome.files, outcome.unread, outcome.units) == (None, None, None, 2)


def test_an_answer_too_large_to_be_kept_has_failed() -> None:
    told = read({"text": "x" * 300_000})
    outcome = after(call(urls="response.body.none"), success(told), told)
    assert (outcome.verdict, outcome.unread) == ("failed", None)
    assert "too large to be read again" in outcome.error_message


@pytest.mark.parametrize(
    ("link", "own"),
    [
        (f"{BASE}/a", True),
        ("https://api.example/b?x=1", True),
        ("https://API.example:443/b", True),
        ("https://cdn.example/a%2Fb", False),
        ("http://cdn.example/a", False),
        ("https://odd.example:8443/a", False),
    ],
)
def test_base_urls_own_host_alone_may_see_credentials(link: str, own: bool) -> None:
    asked = call(hosts=["cdn.example", "odd.example:8443"])
    block = compile_result_files(asked.upstream)
    assert block is not None
    assert allowed(block, BASE, link)[1] is own


@pytest.mark.parametrize(
    "link",
    [
        *("http://api.example/a", "https://api.example:8443/a", "https://cdn.example:8443/a", "https://evil.example/"),
        *("https://cdn.example.evil.example/", "https://cdn.example@evil.example/", "https://u:p@cdn.example/a"),
        *(
            "file:///etc/passwd",
            "ftp://cdn.example/a",
            "//cdn.example/a",
            "/a",
            "",
            "https://",
            "no link",
            "http://[::1",
        ),
        *(
            "https://cdn.example/a\nb",
            "https://127.0.0.1/",
            "https://odd.example/a",
            "https://cdn.example/" + "x" * 4_000,
        ),
    ],
)
def test_other_hosts_are_refused(link: str) -> None:
    block = compile_result_files(call(hosts=["cdn.example", "odd.example:8443"]).upstream)
    assert block is not None
    with pytest.raises(LinkRefused):
        allowed(block, BASE, link)


def test_too_many_links_are_refused() -> None:
    asked = call(urls="response.body")
    block = compile_result_files(asked.upstream)
    scope = scope_of(asked)
    scope.set("response", read(["https://cdn.example/a"] * 51).as_value())
    assert block is not None
    with pytest.raises(LinkRefused):
        links(block, asked, scope)
    scope.set("response", read({}).as_value())
    with pytest.raises(NoLinks):
        links(block, asked, scope)


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ("x", "result_files"),
        ({}, "result_files.urls"),
        ({"urls": "1 +"}, "result_files.urls"),
        ({"urls": "'x'", "url": "x"}, "result_files.url"),
        ({"urls": "'x'", "hosts": "cdn"}, "result_files.hosts"),
        ({"urls": "'x'", "hosts": ["https://cdn"]}, "result_files.hosts"),
        ({"urls": "'x'", "max": "5"}, "result_files.max"),
        ({"urls": "'x'", "timeout": "2h"}, "result_files.timeout"),
    ],
)
def test_mistakes_are_named_by_their_field(block: Any, field: str) -> None:
    with pytest.raises(SpecError) as found:
        compile_result_files({"result_files": block})
    assert found.value.field == field
