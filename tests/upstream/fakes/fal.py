"""A queue of requests: taken under the model's whole path, shown and cancelled under its owner and app."""

from typing import Any

from aiohttp import web

from tests.upstream.fakes.server import KEY, Fake


class Fal(Fake):
    authorization = f"Key {KEY}"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/fal-ai/flux/dev", self.create),
            web.get("/fal-ai/flux/requests/{id}", self.result),
            web.put("/fal-ai/flux/requests/{id}/cancel", self.cancel),
        ]

    def unauthorized(self) -> web.Response:
        return web.json_response({"detail": "Authentication is required to access this application."}, status=401)

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "prompt" not in body:
            detail = [{"loc": ["body", "prompt"], "msg": "field required", "type": "value_error.missing"}]
            return web.json_response({"detail": detail}, status=422)
        work = self.take(status="IN_QUEUE")
        address = f"{self.url}/fal-ai/flux/requests/{work['id']}"
        said = {"request_id": work["id"], "status": "IN_QUEUE", "queue_position": 0, "response_url": address}
        return web.json_response({**said, "status_url": f"{address}/status", "cancel_url": f"{address}/cancel"})

    async def result(self, request: web.Request) -> web.Response:
        work = self.found(request)
        if work["status"] != "COMPLETED":
            return web.json_response({"detail": "Request is still in progress"}, status=400)
        body, status = work["answer"]
        return web.json_response(body, status=status)

    async def cancel(self, request: web.Request) -> web.Response:
        if self.found(request)["status"] == "COMPLETED":
            return web.json_response({"status": "ALREADY_COMPLETED"}, status=400)
        return web.json_response({"status": "CANCELLATION_REQUESTED"}, status=202)

    def starts(self) -> None:
        self.work.update(status="IN_PROGRESS")

    def succeeds(self) -> None:
        self.work.update(status="COMPLETED", answer=({"images": [{"url": "https://files/1.png"}], "seed": 1}, 200))

    def fails(self) -> None:
        detail = [{"loc": ["body", "prompt"], "msg": "CUDA out of memory", "type": "runtime"}]
        self.work.update(status="COMPLETED", answer=({"detail": detail}, 422))

    def is_stopped(self) -> None:
        self.work.update(status="COMPLETED", answer=({"detail": "Request was cancelled"}, 400))

    def says(self, word: Any) -> None:
        self.work.update(status="COMPLETED", answer=({"status": word}, 500))
