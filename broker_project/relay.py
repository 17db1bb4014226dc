"""What web and live share: asking each other over HTTP, and answering over ASGI. Bounded in time, never through a proxy."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
from yarl import URL

from jobs.api.pages import LONGEST_WAIT_SECONDS

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = LONGEST_WAIT_SECONDS + 10.0
_OWN = {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"proxy-authorization",
        b"content-length"}  # fmt: skip
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """A whole answer, with its headers as they came."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> str:
        """The value of a header (lower case name), or an empty text."""
        return next((value.decode("latin-1") for found, value in self.headers if found.lower() == name), "")


def wait_seconds(scope: dict[str, Any]) -> float:
    """How long a GET of one job asks to wait; 0 when it does not, or not in a way that can be read."""
    parts = scope["path"].split("/")
    if (
        scope["method"] != "GET"
        or len(parts) != 4
        or parts[1:3] != ["v1", "jobs"]
        or b"wait" not in scope["query_string"]
    ):
        return 0.0
    try:
        seconds = float(parameter(scope, "wait") or 0)
    except ValueError:
        return 0.0
    return min(seconds, LONGEST_WAIT_SECONDS) if math.isfinite(seconds) and seconds > 0 else 0.0


def parameter(scope: dict[str, Any], name: str) -> str:
    """The value of a query parameter, or an empty text."""
    pairs: dict[str, str] = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return pairs.get(name, "")


def address(scope: dict[str, Any], *without: str) -> str:
    """The path and query of a request, less the parameters `without`."""
    query = scope["query_string"].decode("latin-1")
    if without:
        query = urlencode([(name, value) for name, value in parse_qsl(query, True) if name not in without])
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
    return f"{path}?{query}" if query else path


def end_to_end(headers: Iterable[tuple[bytes, bytes]], *without: bytes) -> Headers:
    """The headers that belong to the request, not to one connection."""
    return [(name, value) for name, value in headers if name.lower() not in _OWN and name.lower() not in without]


def client(base_url: str) -> aiohttp.ClientSession:
    """A client for one of our own processes; as many requests at once as the caller allows."""
    return aiohttp.ClientSession(
        base_url.rstrip("/") + "/",
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def ask(session: aiohttp.ClientSession, where: str, headers: Headers) -> Answer:
    """GETs `where`. Raises aiohttp.ClientError or TimeoutError."""
    sent = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    async with session.get(URL(where.lstrip("/"), encoded=True), headers=sent, allow_redirects=False) as response:
        return Answer(response.status, end_to_end(response.raw_headers), await response.read())


async def until_disconnect(work: Coroutine[Any, Any, Answer], receive: Any) -> Answer | None:
    """The outcome of `work`; None when the one who asked went away meanwhile, which ends the work."""
    working, left = asyncio.ensure_future(work), asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait({working, left}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        left.cancel()
        working.cancel()


async def send_answer(send: Any, answer: Answer) -> None:
    """Sends a whole answer."""
    headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
    if answer.status == 304:
        headers = answer.headers
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def lifespan(
    receive: Any, send: Any, begin: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[None]]
) -> None:
    """Begins before the first request and ends after the last."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await begin()
            await send({"type": "lifespan.startup.complete"})
        else:
            await end()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def gone(receive: Any) -> None:
    """Returns when the one who asked has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
