"""The live process: many requests wait here for a coroutine each, until their job moved, ended, or time is up.

It knows no tenant: it asks web with the caller's own key, waits, and asks again. Redis says which jobs moved; once a
second one question to the database finds what Redis did not tell.
"""
# ruff: noqa: E402  Django is set up before any model is imported

import asyncio
import hashlib
import logging
import os
from collections import Counter
from typing import Any

import aiohttp
import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "broker_project.settings")
django.setup()

from django.conf import settings

from broker_project import relay
from broker_project.relay import Answer
from broker_project.waiting import Waiting
from jobs.outage import Outage
from statemachine.actors import name_process

logger = logging.getLogger(__name__)
MOST_WAITS = 2_000
MOST_WAITS_PER_KEY = 200


class Live:
    """The ASGI application uvicorn serves."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self._web: aiohttp.ClientSession | None = None
        self._by_key: Counter[bytes] = Counter()
        self._web_fails = Outage(logger, "Web", "whoever waits is told so")

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await relay.lifespan(receive, send, self._begin, self._end)
        elif scope["type"] == "http":
            await relay.send_answer(send, await self._answer(scope, receive))

    async def _begin(self) -> None:
        name_process("process:live")
        self._web = relay.client(settings.WEB_URL)
        self.waiting.start()

    async def _end(self) -> None:
        await self.waiting.stop()
        if self._web is not None:
            await self._web.close()

    async def _answer(self, scope: dict[str, Any], receive: Any) -> Answer:
        if scope["path"] == "/healthz":
            return _plain(200, b'{"status":"ok"}')
        seconds = relay.wait_seconds(scope)
        if not seconds:
            return _plain(404, b'{"detail":"only waits for a job are served here"}')
        try:
            answer = await relay.until_disconnect(self._wait(scope, seconds), receive) or _plain(499, b"{}")
        except (aiohttp.ClientError, TimeoutError) as error:
            self._web_fails.noted(error)
            return _plain(503, b'{"detail":"web does not answer"}')
        self._web_fails.over()
        return answer

    async def _wait(self, scope: dict[str, Any], seconds: float) -> Answer:
        """Asks web; while the answer is not what the caller waits for, waits for a move and asks again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        after = _after(scope)
        key = hashlib.sha256(b"\0".join(value for name, value in scope["headers"] if name == b"authorization")).digest()
        full = sum(self._by_key.values()) >= MOST_WAITS or self._by_key[key] >= MOST_WAITS_PER_KEY
        self._by_key[key] += 1
        try:
            with self.waiting.for_job(scope["path"].rpartition("/")[2]) as wait:
                answer = await self._ask(scope)
                while not full and not _is_awaited(answer, after) and (left := deadline - loop.time()) > 0:
                    await wait.moved(_version(answer), left)
                    answer = await self._ask(scope)
                return answer
        finally:
            self._by_key[key] -= 1
            self._by_key += Counter()  # drops those at zero

    async def _ask(self, scope: dict[str, Any]) -> Answer:
        assert self._web is not None  # noqa: S101  made before the first request
        return await relay.ask(self._web, relay.address(scope, "wait"), relay.end_to_end(scope["headers"]))


def _is_awaited(answer: Answer, after: int | None) -> bool:
    """An error, an end (nothing to retry after), or a version above `after`."""
    if answer.status not in (200, 304) or not answer.header(b"retry-after"):
        return True
    return answer.status == 200 and after is not None and _version(answer) > after


def _version(answer: Answer) -> int:
    tag = answer.header(b"etag").strip('"')
    return int(tag) if tag.isdigit() else 0


def _after(scope: dict[str, Any]) -> int | None:
    found = relay.parameter(scope, "after")
    return int(found) if found.isdigit() else None


def _plain(status: int, body: bytes) -> Answer:
    return Answer(status, [(b"content-type", b"application/json"), (b"cache-control", b"no-store")], body)


app = Live()
