"""The web process: Django's WSGI application behind ASGI, with the long polls relayed to the live process.

A request's body is read here, on the loop, before a thread is given to it: a slow sender occupies no thread, and a
chunked body gets the length that WSGI wants. `?wait=` of one job goes to LIVE_URL; when that does not answer, the
request is answered at once as if nobody had asked to wait.

When the threads are all busy, because the database is slow or deaf, a request waits for one no longer than a few seconds
and is then refused undone; one whose sender has gone meanwhile is not begun. `/healthz` needs no thread.
"""

import asyncio
import io
import json
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
from a2wsgi.wsgi import build_environ
from django.conf import settings

from broker_project.wsgi import application  # isort: split

from broker_project import relay
from broker_project.errors import PROBLEMS
from broker_project.relay import Answer
from jobs.outage import Outage
from jobs.sweep import Sweeper
from statemachine.actors import name_process

logger = logging.getLogger(__name__)
THREADS = int(os.environ.get("WEB_THREADS", "4"))
MOST_READ = 32 * 1024 * 1024  # bytes of a body
LONGEST_QUEUE_SECONDS = 5.0  # for a thread
LONGEST_ANSWER_SECONDS = 40.0  # above what the database allows a statement; then the thread is left to itself
_CODE = "temporary-reduced-capacity"
BUSY = json.dumps(
    {"type": f"/problems/{_CODE}", "title": PROBLEMS[_CODE].title, "status": PROBLEMS[_CODE].status, "code": _CODE}
).encode()

_JSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_BUSY_HEADERS = [
    (b"content-type", b"application/problem+json"),
    (b"cache-control", b"no-store"),
    (b"retry-after", b"1"),
    (b"content-length", str(len(BUSY)).encode()),
]
Scope = dict[str, Any]
Start = tuple[int, list[tuple[bytes, bytes]]]


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
            body, complete = await _body(receive)
            if not complete or await self._relayed(scope, receive, send):
                return
            answer = await relay.until_disconnect(self._answered(scope, body), receive)
            if answer is not None:
                # With Django's own length: that of a HEAD is the length of what a GET would send.
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
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

    async def _answered(self, scope: Scope, body: io.BytesIO) -> Answer:
        """The answer of a thread, or a refusal. Cancelled (the sender has gone), it takes back what no thread has begun."""
        environ = dict(build_environ(scope, body))  # type: ignore[arg-type]
        if not environ.get("CONTENT_LENGTH"):
            environ["CONTENT_LENGTH"] = str(body.getbuffer().nbytes)
        work = self._threads.submit(_respond, environ)
        answer = asyncio.wrap_future(work)
        try:
            done, _ = await asyncio.wait({answer}, timeout=LONGEST_QUEUE_SECONDS)
            if not done and not work.cancel():
                done, _ = await asyncio.wait({answer}, timeout=LONGEST_ANSWER_SECONDS)
            return answer.result() if done else Answer(503, _BUSY_HEADERS, BUSY)
        finally:
            work.cancel()


async def _body(receive: Any) -> tuple[io.BytesIO, bool]:
    """The body, up to one byte more than any may have (Django then refuses it); False when the sender went away.

    What is beyond is read and thrown away, up to a bound: a sender that is cut off while it sends never sees the refusal.
    """
    limit = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    body, seen = io.BytesIO(), 0
    while seen <= MOST_READ:
        message = await receive()
        if message["type"] == "http.disconnect":
            return body, False
        chunk = message.get("body", b"")
        seen += len(chunk)
        body.write(chunk[: limit + 1 - body.tell()])
        if not message.get("more_body", False):
            break
    body.seek(0)
    return body, True


def _respond(environ: dict[str, Any]) -> Answer:
    """On a thread: the whole answer of the WSGI application. Closing it lets Django give its connection back."""
    start: list[Start] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start[:] = [(int(status[:3]), named)]

    chunks: Iterable[bytes] = application(environ, start_response)
    try:
        content = b"".join(chunks)
    finally:
        getattr(chunks, "close", lambda: None)()
    status, headers = start[0]
    return Answer(status, headers, content)


app = Front()
