"""Files are fetched over HTTP: with credentials from base_url's own host alone, bounded, redirected to allowed hosts only."""

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import pytest

from tests.linking import Linking
from upstream import links
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
    made = Linking("localhost")
    yield made
    made.die()


def fetched(own: Linking, link: str, **block: Any) -> tuple[Fetched, bytes]:
    headers = {"Authorization": "'Bearer ' + account.credential"}
    upstream = {"headers": headers, "result_files": {"urls": "''", **block}}
    call = Call("key", {}, {}, {}, {"credential": "secret"}, own.url, upstream)
    into = io.BytesIO()

    async def run() -> Fetched:
        compiled = compile_result_files(upstream)
        assert compiled is not None
        async with links.client() as session:
            return await links.fetch(session, compiled, call, link, into)

    return asyncio.run(run()), into.getvalue()


def test_the_own_host_is_asked_with_the_pools_headers(own: Linking) -> None:
    own.pages["/a"] = (200, {"Content-Type": "image/png"}, IMAGE)
    assert fetched(own, f"{own.url}/a") == (Fetched(len(IMAGE), "image/png"), IMAGE)
    assert own.headers["/a"]["authorization"] == "Bearer secret"


def test_another_host_never_sees_the_credential(own: Linking, other: Linking) -> None:
    other.pages["/a"] = (200, {}, IMAGE)
    own.pages["/b"] = (302, {"Location": f"{other.url}/a"}, b"")
    for link in (f"{other.url}/a", f"{own.url}/b"):
        assert fetched(own, link, hosts=[other.host])[1] == IMAGE
        assert "authorization" not in other.headers["/a"]
        with pytest.raises(LinkRefused):
            fetched(own, link)
    assert other.seen["/a"] == 2


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
