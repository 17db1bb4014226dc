"""Fetching a file that a result links to: bounded in size and time, redirected to allowed hosts only."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Final, Self

import aiohttp
from yarl import URL

from upstream.addresses import AddressRefused, PublicResolver
from upstream.calls import Call
from upstream.request import build_request, scope_of
from upstream.result_files import LinkRefused, ResultFiles, allowed

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


class FileTooLong(LinkFailed):
    """A file is larger than the type allows, which an operator may mend."""


class Client:
    """For the running event loop; to be closed.

    base_url's own host may stand in a private network, as the upstream itself; what other names lead to must be public.
    A host of `hosts` that is written out as an address is no name: the operator means that address.
    """

    def __init__(self) -> None:
        self._own = _session(aiohttp.TCPConnector(limit=0))
        self._others = _session(aiohttp.TCPConnector(limit=0, resolver=PublicResolver()))

    def of(self, own: bool) -> aiohttp.ClientSession:
        return self._own if own else self._others

    async def close(self) -> None:
        await self._own.close()
        await self._others.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()


async def fetch(client: Client, block: ResultFiles, call: Call, link: str, into: IO[bytes], *, most: int) -> Fetched:
    """Writes what the link leads to, at most `max` and `most` bytes. The declared paths of base_url's own host alone are
    asked with the pool's headers.

    Raises LinkFailed, FileTooLong, LinkRefused, ExpressionError (of a header).
    """
    try:
        async with asyncio.timeout(block.timeout_ms / 1_000):
            return await _followed(client, block, call, link, into, most=min(most, block.max_bytes))
    except TimeoutError:
        raise LinkFailed(f"not whole within {block.timeout_ms / 1_000:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, AddressRefused):
            raise LinkRefused(str(error.__cause__)) from None
        raise LinkFailed(f"the connection failed: {type(error).__name__}") from error


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "berth"},
        trust_env=False,
    )


async def _followed(
    client: Client, block: ResultFiles, call: Call, link: str, into: IO[bytes], *, most: int
) -> Fetched:
    address = allowed(block, call.base_url, link)
    for _ in range(MOST_REDIRECTS + 1):
        headers = build_request(block.request, call, scope_of(call)).headers if address.trusted else {}
        connecting = aiohttp.ClientTimeout(total=None, connect=MAX_CONNECT_SECONDS)
        asked = client.of(address.own).get(address.url, headers=headers, allow_redirects=False, timeout=connecting)
        async with asked as response:
            if response.status not in _REDIRECTS:
                return await _read(response, most, into)
            location = response.headers.get("Location", "")
        address = allowed(block, call.base_url, _joined(address.url, location), after=address.url)
    raise LinkFailed("redirected too often")


def _joined(url: URL, location: str) -> str:
    try:
        return str(url.join(URL(location, encoded=True)))
    except ValueError:
        raise LinkRefused("redirected to what is no address") from None


async def _read(response: aiohttp.ClientResponse, most: int, into: IO[bytes]) -> Fetched:
    if response.status != 200:
        raise LinkFailed(f"answered {response.status}")
    size = 0
    async for chunk in response.content.iter_chunked(262_144):
        size += len(chunk)
        if size > most:
            response.close()
            raise FileTooLong(f"more than {most} bytes")
        into.write(chunk)
    return Fetched(size, response.headers.get("Content-Type", ""))
