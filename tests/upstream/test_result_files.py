"""What an answer carries beside JSON, and where links may lead."""

from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

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
def test_without_a_word_no_link_is_fetched_with_credentials(link: str, own: bool) -> None:
    asked = call(hosts=["cdn.example", "odd.example:8443"])
    block = compile_result_files(asked.upstream)
    assert block is not None
    found = allowed(block, BASE, link)
    assert (found.own, found.trusted) == (own, False)


@pytest.mark.parametrize(
    ("path", "trusted"),
    [
        *((path, True) for path in ("/v1/files/a", "/v1/files/a/b.png?x=1", "/v1/files/my%20cat.png", "/out/1")),
        *((path, False) for path in ("/v1/filesystem", "/v1/files", "/v1/files/", "/v1/predictions", "/", "")),
        *((path, False) for path in ("/v1/files/../predictions", "/v1/files/./a", "/v1/files/..", "/v1/files//a")),
        *((path, False) for path in ("/v1/files/%2e%2e/predictions", "/v1/files/%2E./x", "/v1/files/..%2fpredictions")),
        *((path, False) for path in ("/v1/files/%252e%252e/x", "/v1/files/..;/x", "/v1/files/a;b", "/v1/files/..%5cx")),
        *((path, False) for path in ("/V1/files/a", "//v1/files/a", "/%76%31/files/a", "/v1/files/%c0%ae%c0%ae/x")),
        *((path, False) for path in ("/v1/files/a\\..\\b", "/v1/files/%00", "/v1/files/ä")),
    ],
)
def test_credentials_go_to_declared_paths_alone_however_the_path_is_written(path: str, trusted: bool) -> None:
    block = compile_result_files(call(auth=True, paths=["/v1/files/", "/out"]).upstream)
    assert block is not None
    assert allowed(block, BASE, f"https://api.example{path}").trusted is trusted
    assert not allowed(block, BASE, f"https://cdn.example{path}").trusted


def test_no_redirect_leads_from_https_to_http() -> None:
    block = compile_result_files(call(max="1MB").upstream)
    assert block is not None
    secure, plain = URL("https://cdn.example/a"), "http://cdn.example/b"
    with pytest.raises(LinkRefused, match="from https to http"):
        allowed(block, BASE, plain, after=secure)
    assert allowed(block, BASE, plain, after=URL(plain)).url == URL(plain)


@pytest.mark.parametrize(
    "link",
    [
        *("http://api.example/a", "https://api.example:8443/a", "https://cdn.example:8443/a", "https://evil.example/"),
        *("https://cdn.example.evil.example/", "https://cdn.example@evil.example/", "https://u:p@cdn.example/a"),
        *("https://@cdn.example/a", "https://:p@cdn.example/a", "https://u@api.example/v1/a"),
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
        ({"urls": "'x'", "auth": True}, "result_files.paths"),
        ({"urls": "'x'", "auth": "yes", "paths": ["/a"]}, "result_files.auth"),
        ({"urls": "'x'", "paths": ["/files"]}, "result_files.auth"),
        *(
            ({"urls": "'x'", "auth": True, "paths": paths}, "result_files.paths")
            for paths in ("/a", ["/"], ["a"], [""], ["/a//b"], ["/a/../b"], ["/./a"], ["/a%2f"], ["/a?b"], [7])
        ),
        ({"urls": "'x'", "max": "5"}, "result_files.max"),
        ({"urls": "'x'", "timeout": "2h"}, "result_files.timeout"),
    ],
)
def test_mistakes_are_named_by_their_field(block: Any, field: str) -> None:
    with pytest.raises(SpecError) as found:
        compile_result_files({"result_files": block})
    assert found.value.field == field
