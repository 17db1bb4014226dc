"""`POST /run`: the answer is the result."""

from __future__ import annotations

from aiohttp import web

from simulator.answers import (
    exists_answer,
    json_answer,
    leave_unanswered,
    lose_or_spoil,
    refusing,
    result_body,
    result_status,
)
from simulator.authentication import account_of, key_of
from simulator.provider import Provider
from simulator.times import now


class SyncApi:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/run", refusing(self.run)),
            web.get("/account", refusing(self.account)),
            web.get("/health", self.health),
        ]

    async def run(self, request: web.Request) -> web.StreamResponse:
        account = account_of(self.provider, request, "run")
        taken = self.provider.take(account, "run", key_of(request), await request.read())
        execution, fault = taken.execution, taken.fault
        if taken.repeat and execution.fault.exists:
            return exists_answer(execution)
        if await leave_unanswered(request, fault):
            return web.Response()
        await execution.finished()
        answer = json_answer(result_body(execution), *result_status(execution))
        response = await lose_or_spoil(request, fault, answer)
        if not taken.repeat:
            await response.prepare(request)
            await response.write_eof()
            # The hand-off to the caller's next request is counted from here, not from our timer.
            execution.answered_at = now()
        return response

    async def account(self, request: web.Request) -> web.StreamResponse:
        """What the caller's own account shows: sessions in use and balance."""
        return json_answer(account_of(self.provider, request, "account").line())

    async def health(self, _: web.Request) -> web.StreamResponse:
        return json_answer({"status": "ok"})
