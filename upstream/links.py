"""Fetching a file that a result links to: bounded in size and time, redirected to allowed hosts only."""

import asyncio
from dataclasses import dataclass
from typing import IO, Final

import aiohttp
from yarl import URL

from upstream.calls import Call
from upstream.request import build_request, scope_of
from upstream.result_files import ResultFiles, allowed

MOST_REDIRECTS: Final = 5
MAX_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came: bytes, and what they are said to be."""

    size: int
    content_type: str


class LinkFailed(Exception):
    """A link did not lead to a file. The message names no link: one may be a secret."""


def client() -> aiohttp.ClientSession:
    """For the running event loop; to be closed."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "berth"},
        trust_env=False,
    )


class FileTooLong(LinkFailed):
    """A file is larger than the type allows, which an operator may mend."""


async def fetch(session: aiohttp.ClientSession, block: ResultFiles, call: Call, link: str, into: IO[bytes]) -> Fetched:
    """Writes what the link leads to. base_url's own host is asked with the pool's headers, no other is.

    Raises LinkFailed, FileTooLong, LinkRefused, ExpressionError (of a header).
    """
    try:
        async with asyncio.timeout(block.timeout_ms / 1_000):
            return await _followed(session, block, call, link, into)
    except TimeoutError:
        raise LinkFailed(f"not whole within {block.timeout_ms / 1_000:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise LinkFailed(f"the connection failed: {type(error).__name__}") from error


async def _followed(
    session: aiohttp.ClientSession, block: ResultFiles, call: Call, link: str, into: IO[bytes]
) -> Fetched:
    url, own = allowed(block, call.base_url, link)
    for _ in range(MOST_REDIRECTS + 1):
        headers = build_request(block.request, call, scope_of(call)).headers if own else {}
        connecting = aiohttp.ClientTimeout(total=None, connect=MAX_CONNECT_SECONDS)
        async with session.get(url, headers=headers, allow_redirects=False, timeout=connecting) as response:
            if response.status not in _REDIRECTS:
                return await _read(response, block, into)
            location = response.headers.get("Location", "")
        url, own = allowed(block, call.base_url, str(url.join(URL(location, encoded=True))))
    raise LinkFailed("redirected too often")


async def _read(response: aiohttp.ClientResponse, block: ResultFiles, into: IO[bytes]) -> Fetched:
    if response.status != 200:
        raise LinkFailed(f"answered {response.status}")
    size = 0
    async for chunk in response.content.iter_chunked(262_144):
        size += len(chunk)
        if size > block.max_bytes:
            response.close()
            raise FileTooLong(f"more than {block.max_bytes} bytes")
        into.write(chunk)
    return Fetched(size, response.headers.get("Content-Type", ""))
