"""Predictions: created, asked for by id, cancelled; states starting, processing, succeeded, failed, canceled."""

from typing import Any

from aiohttp import web

from tests.upstream.fakes.server import Fake


class Replicate(Fake):
    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/predictions", self.create),
            web.get("/v1/predictions/{id}", self.show),
            web.post("/v1/predictions/{id}/cancel", self.cancel),
        ]

    def unauthorized(self) -> web.Response:
        return web.json_response({"title": "Unauthenticated", "detail": "no such token", "status": 401}, status=401)

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "input" not in body:
            problem = {"title": "Input validation failed", "detail": "- input is required\n", "status": 422}
            return web.json_response(problem, status=422)
        work = self.take(status="starting", input=body["input"], output=None, error=None, metrics={}, logs="")
        return web.json_response(work, status=201)

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response(self.found(request))

    async def cancel(self, request: web.Request) -> web.Response:
        work = self.found(request)
        if work["status"] in ("starting", "processing"):
            work["status"] = "canceled"
        return web.json_response(work)

    def starts(self) -> None:
        self.work.update(status="processing", started_at="2026-01-01T00:00:00Z")

    def succeeds(self) -> None:
        self.work.update(status="succeeded", output=["https://files/1.png"], metrics={"predict_time": 1.5})

    def fails(self) -> None:
        self.work.update(status="failed", error="CUDA out of memory", metrics={"predict_time": 0.5})

    def is_stopped(self) -> None:
        self.work.update(status="canceled")

    def says(self, word: Any) -> None:
        self.work.update(status=word)
