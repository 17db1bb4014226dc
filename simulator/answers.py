"""How executions and refusals look on the wire, and the ways an answer can get lost or spoilt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from simulator.executions import Execution
from simulator.faults import Fault
from simulator.refusals import Refused
from simulator.times import LONGEST_SECONDS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def result_body(execution: Execution) -> dict[str, Any]:
    """The answer of `/run`: always the same for the same execution."""
    if execution.fault.error_body:
        return {"status": "error", "id": execution.id, "error": _error(execution)}
    body: dict[str, Any] = {"status": execution.status, "id": execution.id, "units": shown_units(execution)}
    if execution.outcome == "failed":
        body["error"] = _error(execution)
    else:
        body["output"] = _output(execution)
    return body


def task_body(execution: Execution) -> dict[str, Any]:
    """A task as polls and callbacks show it."""
    ended = execution.ended_at is not None
    return {
        "id": execution.id,
        "status": execution.status,
        "progress": execution.progress,
        "output": _output(execution) if execution.outcome in ("done", "partial") else None,
        "units": shown_units(execution) if ended else None,
        "error": _error(execution) if execution.outcome == "failed" else None,
    }


def running_body(execution: Execution) -> dict[str, Any]:
    """News that are old: as if it still ran."""
    news = {"id": execution.id, "status": "running", "progress": 0.5}
    return {**news, "output": None, "units": None, "error": None}


def exists_answer(execution: Execution) -> web.Response:
    """To a key that has its work already, by a provider that tells its name and nothing more."""
    error = {"code": "exists", "message": "this key has its work already"}
    return json_answer({"id": execution.id, "error": error}, 409)


def shown_units(execution: Execution) -> Any:
    """What we say it cost, which a fault may falsify; the book keeps the truth."""
    usage = execution.fault.bad_usage
    return execution.billed if usage is None else usage[0]


def result_status(execution: Execution) -> tuple[int, str | None]:
    """HTTP status and Retry-After of a sync answer."""
    failure = execution.fault.fail
    return (failure.code, failure.retry_after) if failure is not None else (200, None)


def _output(execution: Execution) -> dict[str, Any]:
    output: dict[str, Any] = {"text": f"output of {execution.id}", "reference": execution.reference}
    if execution.ask.echo is not None:
        output["echo"] = execution.ask.echo
    return output


def _error(execution: Execution) -> dict[str, Any]:
    code = "error_body" if execution.fault.fail is None else str(execution.fault.fail.code)
    return {"code": code, "message": "this failure was asked for"}


def json_answer(body: Any, status: int = 200, retry_after: str | None = None) -> web.Response:
    headers = None if retry_after is None else {"Retry-After": retry_after}
    text = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(body=text, status=status, headers=headers, content_type="application/json")


def refusing(handler: Handler) -> Handler:
    """Writes what the handler refused."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            return json_answer({"error": error}, refusal.status, refusal.retry_after)

    return answered


async def lose_or_spoil(request: web.Request, fault: Fault, answer: web.Response) -> web.StreamResponse:
    """The answer, unless this request's fault takes it away or damages it on the way."""
    if fault.unreadable_body:
        return web.Response(body=b'{"status": "do', content_type="application/json")
    if not fault.cut_body:
        return answer
    body = answer.body if isinstance(answer.body, bytes) else b""
    cut = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
    cut.content_length = len(body)
    await cut.prepare(request)
    await cut.write(body[: len(body) // 2])
    hang_up(request)
    return cut


async def leave_unanswered(request: web.Request, fault: Fault) -> bool:
    """True when the caller gets no answer: the socket is closed at once, or was held open for ever."""
    if fault.accept_then_drop:
        hang_up(request)
        return True
    if fault.hang is not False:
        await asyncio.sleep(LONGEST_SECONDS)
        return True
    return False


def hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()
