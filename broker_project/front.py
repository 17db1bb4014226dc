"""The web process: Django's WSGI application behind ASGI, with the long polls relayed to the live process.

A request's body is read here, on the loop, before a thread is given to it, and a file is sent from here piece by piece: a
slow sender or reader occupies no thread. A chunked body gets the length that WSGI wants. `?wait=` of one job goes to
LIVE_URL; when that does not answer, the request is answered at once as if nobody had asked to wait.

When the threads are all busy, because the database is slow or deaf, a request waits for one no longer than a few seconds
and is then refused undone; one whose sender has gone meanwhile is not begun. `/healthz` needs no thread.
"""

import asyncio
import json
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import aiohttp
from a2wsgi.wsgi import build_environ
from django.conf import settings
from django.db import connection

from broker_project.wsgi import application  # isort: split

from broker_project import arriving, relay
from broker_project.arriving import Body
from broker_project.errors import PROBLEMS
from broker_project.relay import Answer
from jobs.outage import Outage
from jobs.sweep import Sweeper
from statemachine.actors import name_process

logger = logging.getLogger(__name__)
THREADS = int(os.environ.get("WEB_THREADS", "4"))
LONGEST_QUEUE_SECONDS = 5.0  # for a thread
LONGEST_ANSWER_SECONDS = 40.0  # above what the database allows a statement; then the thread is left to itself


def _problem(code: str) -> bytes:
    found = PROBLEMS[code]
    said = {"type": f"/problems/{code}", "title": found.title, "status": found.status, "code": code}
    return json.dumps(said).encode()


BUSY = _problem("temporary-reduced-capacity")
_JSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_BUSY_HEADERS = [
    (b"content-type", b"application/problem+json"),
    (b"cache-control", b"no-store"),
    (b"retry-after", b"1"),
    (b"content-length", str(len(BUSY)).encode()),
]
_FULL = Answer(503, [pair for pair in _BUSY_HEADERS if pair[0] != b"content-length"], BUSY)
_SLOW = Answer(
    400, [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")], _problem("malformed")
)
Scope = dict[str, Any]
Start = tuple[int, list[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class Flowing(Answer):
    """An answer whose body is read while it is sent."""

    chunks: Any


class Front:
    """The ASGI application uvicorn serves."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web")
        self._sweeper: Sweeper | None = None
        self._live: aiohttp.ClientSession | None = None
        self._live_fails = Outage(logger, "The live process", "long polls are answered without waiting")

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await relay.lifespan(receive, send, self._begin, self._end)
        elif scope["type"] == "http" and scope["path"] == "/healthz":
            await relay.send_answer(send, Answer(200, _JSON, b'{"status":"ok"}'))
        elif scope["type"] == "http":
            try:
                arrived = await arriving.body_of(scope, receive)
            except (arriving.NoRoom, arriving.TooSlow) as error:
                await relay.send_answer(send, _FULL if isinstance(error, arriving.NoRoom) else _SLOW)
                return
            if arrived is None:
                return
            body, size = arrived
            if await self._relayed(scope, receive, send):
                body.close()
                return
            answer = await relay.until_disconnect(self._answered(scope, body, size), receive)
            if answer is not None:
                # With Django's own length: that of a HEAD is the length of what a GET would send.
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
                if isinstance(answer, Flowing):
                    await _flow(answer, receive, send)
                else:
                    await send({"type": "http.response.body", "body": answer.body})

    async def _begin(self) -> None:
        name_process("process:web")
        self._sweeper = Sweeper()
        self._sweeper.start()
        if settings.LIVE_URL:
            self._live = relay.client(settings.LIVE_URL)

    async def _end(self) -> None:
        if self._sweeper is not None:
            self._sweeper.stop()
            await asyncio.to_thread(self._sweeper.join, 5)
        if self._live is not None:
            await self._live.close()
        self._threads.shutdown(wait=True)

    async def _relayed(self, scope: Scope, receive: Any, send: Any) -> bool:
        """Whether live answered; if not, nothing was sent yet."""
        if self._live is None or not relay.wait_seconds(scope):
            return False
        asked = relay.ask(self._live, relay.address(scope), relay.end_to_end(scope["headers"]))
        try:
            answer = await relay.until_disconnect(asked, receive)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._live_fails.noted(error)
            return False
        self._live_fails.over()
        if answer is None:
            return True  # the one who asked has gone
        if answer.status >= 500:
            return False  # e.g. live is being stopped: web itself knows better
        await relay.send_answer(send, answer)
        return True

    async def _answered(self, scope: Scope, body: Body, size: int) -> Answer:
        """The answer of a thread, or a refusal. Cancelled (the sender has gone), it takes back what no thread has begun."""
        environ = dict(build_environ(scope, body))  # type: ignore[arg-type]
        if not environ.get("CONTENT_LENGTH"):
            environ["CONTENT_LENGTH"] = str(size)
        work = self._threads.submit(_respond, environ)
        work.add_done_callback(lambda _: body.close())  # also of one that was cancelled before it began
        answer = asyncio.wrap_future(work)
        try:
            done, _ = await asyncio.wait({answer}, timeout=LONGEST_QUEUE_SECONDS)
            if not done and not work.cancel():
                done, _ = await asyncio.wait({answer}, timeout=LONGEST_ANSWER_SECONDS)
            return answer.result() if done else Answer(503, _BUSY_HEADERS, BUSY)
        finally:
            work.cancel()


async def _flow(answer: Flowing, receive: Any, send: Any) -> None:
    """Sends the body as fast as it is taken; reading it costs a thread only for the moment."""
    gone = asyncio.ensure_future(relay.gone(receive))
    try:
        chunks = iter(answer.chunks)
        while not gone.done() and (chunk := await asyncio.to_thread(next, chunks, b"")):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await asyncio.to_thread(answer.chunks.close)


def _respond(environ: dict[str, Any]) -> Answer:
    """On a thread: the whole answer of the WSGI application. Closing it lets Django give its connection back."""
    start: list[Start] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start[:] = [(int(status[:3]), named)]

    chunks: Iterable[bytes] = application(environ, start_response)
    if getattr(chunks, "streaming", False):
        connection.close()  # sending takes as long as the reader likes, on other threads; this one's is given back now
        status, headers = start[0]
        return Flowing(status, headers, b"", chunks)
    try:
        content = b"".join(chunks)
    finally:
        getattr(chunks, "close", lambda: None)()
    status, headers = start[0]
    return Answer(status, headers, content)


app = Front()
