"""Jobs of a queue endpoint: run, status, cancel; states IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED, TIMED_OUT."""

from typing import Any

from aiohttp import web

from tests.upstream.fakes.server import Fake


class RunPod(Fake):
    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v2/ep1/run", self.run),
            web.get("/v2/ep1/status/{id}", self.status),
            web.post("/v2/ep1/cancel/{id}", self.cancel),
        ]

    def unauthorized(self) -> web.Response:
        return web.Response(status=401, text="")

    async def run(self, request: web.Request) -> web.Response:
        body = await request.json()
        if not isinstance(body.get("input"), dict):
            return web.json_response({"error": "input is required"}, status=400)
        work = self.take(status="IN_QUEUE")
        return web.json_response({"id": work["id"], "status": "IN_QUEUE"})

    async def status(self, request: web.Request) -> web.Response:
        return web.json_response(self.found(request))

    async def cancel(self, request: web.Request) -> web.Response:
        work = self.found(request)
        work["status"] = "CANCELLED"
        return web.json_response({"id": work["id"], "status": work["status"]})

    def starts(self) -> None:
        self.work.update(status="IN_PROGRESS", delayTime=31)

    def succeeds(self) -> None:
        self.work.update(status="COMPLETED", executionTime=1500, output=["https://files/1.png"])

    def fails(self) -> None:
        self.work.update(status="FAILED", executionTime=500, error="CUDA out of memory")

    def is_stopped(self) -> None:
        self.work.update(status="CANCELLED")

    def says(self, word: Any) -> None:
        self.work.update(status=word)
