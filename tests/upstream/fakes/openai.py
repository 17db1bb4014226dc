"""Batches and chat completions, with the errors and finish reasons that such providers have."""

from typing import Any

from aiohttp import web

from tests.upstream.fakes.server import Fake


def error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


class OpenAI(Fake):
    """`completion` (status, body) is what the next chat answers."""

    completion: tuple[int, Any] = (200, {})

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list),
            web.get("/v1/batches/{id}", self.show),
            web.post("/v1/batches/{id}/cancel", self.cancel),
            web.post("/v1/chat/completions", self.chat),
        ]

    def unauthorized(self) -> web.Response:
        return web.json_response(error("invalid_api_key", "Incorrect API key provided"), status=401)

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["input_file_id"] != "file-1":
            return web.json_response(error("invalid_file", "no such file"), status=400)
        counts = {"total": 0, "completed": 0, "failed": 0}
        told = {"object": "batch", "status": "validating", "errors": None, "output_file_id": None}
        return web.json_response(self.take(**told, request_counts=counts, metadata=body["metadata"]))

    async def list(self, _request: web.Request) -> web.Response:
        newest = list(reversed(self.works.values()))
        return web.json_response({"object": "list", "data": newest, "has_more": len(newest) > 100})

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response(self.found(request))

    async def cancel(self, request: web.Request) -> web.Response:
        work = self.found(request)
        work["status"] = "cancelling"
        return web.json_response(work)

    async def chat(self, _request: web.Request) -> web.Response:
        status, body = self.completion
        return web.json_response(body, status=status)

    def starts(self) -> None:
        self.work.update(status="in_progress", request_counts={"total": 4, "completed": 1, "failed": 0})

    def succeeds(self) -> None:
        counts = {"total": 4, "completed": 4, "failed": 0}
        self.work.update(status="completed", request_counts=counts, output_file_id="file-2")

    def fails(self) -> None:
        errors = {"object": "list", "data": [{"code": "invalid_json_line", "message": "line 1 is no JSON", "line": 1}]}
        self.work.update(status="failed", errors=errors)

    def is_stopped(self) -> None:
        self.work.update(status="cancelled")

    def says(self, word: Any) -> None:
        self.work.update(status=word)
