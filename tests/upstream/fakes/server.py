"""What the fakes of providers have in common: a real HTTP server on a thread, a key, work by its id, refusals on demand."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import web

KEY = "k3y-of-the-account"


class Fake:
    """`refusal` (status, body, headers) answers everything while it is set; `works` is changed by the test at will."""

    authorization = f"Bearer {KEY}"

    def __init__(self) -> None:
        self.works: dict[str, dict[str, Any]] = {}
        self.refusal: tuple[int, Any, dict[str, str]] | None = None
        self.requests: list[tuple[str, str, Any]] = []  # method, path with query, body
        self.at_request: dict[int, Callable[[], None]] = {}  # what happens just before the request of that number
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def work(self) -> dict[str, Any]:
        """The work that was taken last."""
        return list(self.works.values())[-1]

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(5)

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def unauthorized(self) -> web.Response:
        raise NotImplementedError

    def take(self, **fields: Any) -> dict[str, Any]:
        number = f"w{len(self.works) + 1}"
        self.works[number] = {"id": number, **fields}
        return self.works[number]

    def found(self, request: web.Request) -> dict[str, Any]:
        work = self.works.get(request.match_info["id"])
        if work is None:
            raise web.HTTPNotFound(text='{"detail": "not found"}', content_type="application/json")
        return work

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        app = web.Application(middlewares=[self._guarded])
        app.add_routes(self.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._stopped.wait()
        await runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path_qs, body))
        if happens := self.at_request.get(len(self.requests)):
            happens()
        if request.headers.get("Authorization") != self.authorization:
            return self.unauthorized()
        if self.refusal is not None:
            status, refused, headers = self.refusal
            return web.json_response(refused, status=status, headers=headers)
        answer: web.StreamResponse = await handler(request)
        return answer
