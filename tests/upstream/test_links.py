"""Files are fetched over HTTP: with credentials from declared paths alone, bounded, redirected to allowed hosts only."""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest

from tests.linking import Linking
from upstream import links
from upstream.addresses import is_public
from upstream.calls import Call
from upstream.links import Fetched, LinkFailed
from upstream.result_files import LinkRefused, compile_result_files

IMAGE = b"\x89PNG" * 50_000


@pytest.fixture
def own() -> Iterator[Linking]:
    made = Linking()
    yield made
    made.die()


@pytest.fixture
def other() -> Iterator[Linking]:
    made = Linking()
    yield made
    made.die()


def fetched(own: Linking, link: str, most: int = 10**9, **block: Any) -> tuple[Fetched, bytes]:
    headers = {"Authorization": "'Bearer ' + account.credential"}
    upstream = {"headers": headers, "result_files": {"urls": "''", **block}}
    call = Call("key", {}, {}, {}, {"credential": "secret"}, own.url, upstream)
    into = io.BytesIO()

    async def run() -> Fetched:
        compiled = compile_result_files(upstream)
        assert compiled is not None
        async with links.Client() as client:
            return await links.fetch(client, compiled, call, link, into, most=most)

    return asyncio.run(run()), into.getvalue()


def test_declared_paths_of_the_own_host_alone_are_asked_with_the_pools_headers(own: Linking) -> None:
    for path in ("/files/a", "/v1/predictions", "/files/../v1/predictions", "/files/%2e%2e/v1/predictions"):
        own.pages[path] = (200, {"Content-Type": "image/png"}, IMAGE)
        assert fetched(own, f"{own.url}{path}", auth=True, paths=["/files"]) == (
            Fetched(len(IMAGE), "image/png"), IMAGE
        )  # fmt: skip
        assert own.headers[path].get("authorization") == ("Bearer secret" if path == "/files/a" else None)
    fetched(own, f"{own.url}/files/a")
    assert "authorization" not in own.headers["/files/a"], "nothing is declared"


def test_a_redirect_from_a_declared_path_carries_no_headers_to_others(own: Linking) -> None:
    own.pages["/files/a"] = (302, {"Location": "/v1/predictions"}, b"")
    own.pages["/v1/predictions"] = (200, {}, b"everybody's")
    fetched(own, f"{own.url}/files/a", auth=True, paths=["/files/"])
    assert own.headers["/files/a"]["authorization"] == "Bearer secret"
    assert "authorization" not in own.headers["/v1/predictions"]


def test_another_host_never_sees_the_credential(own: Linking, other: Linking) -> None:
    other.pages["/files/a"] = (200, {}, IMAGE)
    own.pages["/files/b"] = (302, {"Location": f"{other.url}/files/a"}, b"")
    declared = {"auth": True, "paths": ["/files"]}
    for link in (f"{other.url}/files/a", f"{own.url}/files/b"):
        assert fetched(own, link, hosts=[other.host], **declared)[1] == IMAGE
        assert "authorization" not in other.headers["/files/a"]
        with pytest.raises(LinkRefused):
            fetched(own, link, **declared)
    assert other.seen["/files/a"] == 2


def test_a_name_that_leads_into_our_own_network_is_refused(own: Linking, other: Linking) -> None:
    other.pages["/a"] = (200, {}, IMAGE)
    named = other.url.replace("127.0.0.1", "localhost")
    own.pages["/b"] = (302, {"Location": f"{named}/a"}, b"")
    for link in (f"{named}/a", f"{own.url}/b"):
        with pytest.raises(LinkRefused, match="not public"):
            fetched(own, link, hosts=[other.host.replace("127.0.0.1", "localhost")])
    assert not other.seen


def test_base_urls_own_host_may_be_a_name_of_our_network() -> None:
    made = Linking("localhost")
    made.pages["/a"] = (200, {}, b"x")
    assert fetched(made, f"{made.url}/a")[1] == b"x"
    made.die()


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("64:ff9b::101:101", True),
        *((each, False) for each in ("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254")),
        *((each, False) for each in ("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "no address")),  # noqa: S104
        *((each, False) for each in ("::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1")),
        *((each, False) for each in ("2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe")),
    ],
)
def test_only_addresses_of_the_public_network_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_less_than_max_may_be_left(own: Linking) -> None:
    own.pages["/a"] = (200, {}, b"x" * 101)
    with pytest.raises(LinkFailed, match="100 bytes"):
        fetched(own, f"{own.url}/a", most=100)


def test_a_redirect_within_the_host_is_followed_and_a_circle_ends(own: Linking) -> None:
    own.pages["/a"] = (307, {"Location": "b"}, b"")
    own.pages["/b"] = (200, {}, b"x")
    own.pages["/c"] = (301, {"Location": "/c"}, b"")
    assert fetched(own, f"{own.url}/a")[1] == b"x"
    with pytest.raises(LinkFailed, match="too often"):
        fetched(own, f"{own.url}/c")
    assert own.seen["/c"] == links.MOST_REDIRECTS + 1


@pytest.mark.parametrize(
    ("page", "block", "why"),
    [
        ((404, {}, b"none"), {}, "404"),
        ((200, {}, b"x" * 101), {"max": "100B"}, "100 bytes"),
        ((200, {"Content-Length": "1000"}, b"x" * 10), {}, "connection failed"),
        ((302, {}, b""), {}, "too often"),
    ],
)
def test_what_is_no_whole_file_fails(own: Linking, page: Any, block: dict[str, Any], why: str) -> None:
    own.pages["/a"] = page
    with pytest.raises(LinkFailed, match=why):
        fetched(own, f"{own.url}/a", **block)


def test_a_slow_or_dead_host_fails(own: Linking) -> None:
    own.pages["/a"] = (200, {}, b"x")
    own.pause_seconds = 1.0
    with pytest.raises(LinkFailed, match=r"0\.2 s"):
        fetched(own, f"{own.url}/a", timeout="200ms")
    own.die()
    with pytest.raises(LinkFailed, match="connection failed"):
        fetched(own, f"{own.url}/a")
