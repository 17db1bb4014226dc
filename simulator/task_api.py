"""`/tasks`: the answer is a reference, asked for later, or told to a callback address."""

from __future__ import annotations

import asyncio

from aiohttp import web

from simulator.accounts import Account
from simulator.answers import (
    exists_answer,
    hang_up,
    json_answer,
    leave_unanswered,
    lose_or_spoil,
    refusing,
    running_body,
    task_body,
)
from simulator.authentication import account_of, key_of
from simulator.executions import Execution
from simulator.provider import Provider
from simulator.refusals import Refused
from simulator.times import now


class TaskApi:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/tasks", refusing(self.submit)),
            web.get("/tasks/any", refusing(self.find)),
            web.get("/tasks/{id}", refusing(self.poll)),
            web.delete("/tasks/{id}", refusing(self.cancel)),
        ]

    async def submit(self, request: web.Request) -> web.StreamResponse:
        account = account_of(self.provider, request, "task")
        taken = self.provider.take(account, "task", key_of(request), await request.read())
        execution, fault = taken.execution, taken.fault
        if taken.repeat and execution.fault.exists:
            return exists_answer(execution)
        if fault.early_callback:
            await execution.finished()
            if execution.callback_task is not None:
                # A shield, because a caller who hangs up must not take the callback with it.
                await asyncio.shield(execution.callback_task)
        if await leave_unanswered(request, fault):
            return web.Response()
        status = "THROTTLED" if execution.started_at is None else "queued"
        answer = json_answer({"id": "" if fault.empty_id else execution.id, "status": status}, 202)
        return await lose_or_spoil(request, fault, answer)

    async def poll(self, request: web.Request) -> web.StreamResponse:
        execution = self._execution(request)
        self.provider.book.counts["polls"] += 1
        execution.polls += 1
        if execution.fault.hang_poll:
            await asyncio.sleep(execution.fault.hang_poll)
        if execution.polls <= execution.fault.poll_404:
            raise Refused(404, "not_found", "no such task (a fault)")
        if execution.polls <= execution.fault.lose_poll:
            hang_up(request)
        if execution.ended_at is not None and execution.stale_polls < execution.fault.stale_poll:
            execution.stale_polls += 1
            return json_answer(running_body(execution))
        return json_answer(task_body(execution))

    async def find(self, request: web.Request) -> web.StreamResponse:
        """By idempotency key, of either kind of work: how a caller learns what became of a lost answer."""
        account = self._caller(request, "find")
        self.provider.book.counts["finds"] += 1
        execution = account.by_key.get(request.query.get("key", ""))
        if execution is None or now() - execution.accepted_at < execution.fault.find_late:
            raise Refused(404, "not_found", "this key was never seen")
        execution.finds += 1
        if execution.finds <= execution.fault.lose_find:
            hang_up(request)
        return json_answer(task_body(execution))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        execution = self._execution(request)
        if execution.ended_at is not None:
            return json_answer(task_body(execution), 200 if execution.outcome == "cancelled" else 409)
        self.provider.cancel(execution)
        if execution.fault.lose_cancel:
            hang_up(request)
        return json_answer(task_body(execution), 202 if execution.ended_at is None else 200)

    def _execution(self, request: web.Request) -> Execution:
        account = self._caller(request, "poll")
        execution = self.provider.book.by_id.get(request.match_info["id"])
        if execution is None or execution.account is not account:
            raise Refused(404, "not_found", "no such task")
        return execution

    def _caller(self, request: web.Request, kind: str) -> Account:
        account = account_of(self.provider, request, kind)
        self.provider.refuse_flooded()
        return account
