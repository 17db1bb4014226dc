"""The `http` adapter: one call of an upstream over HTTP. Whatever it meets becomes an Outcome."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import aiohttp

from statemachine.crashpoints import crashpoint
from upstream import answer, followed, mapping, result_files
from upstream.calls import Call, Outcome
from upstream.expressions import ExpressionError, Scope
from upstream.following import compile_callback, compile_cancel, compile_find, compile_poll
from upstream.request import Request, build_request, scope_of
from upstream.spec import Sending, SpecError, compile_submit
from upstream.wording import NoAnswer

S = TypeVar("S", bound=Sending)
R = TypeVar("R")

MAX_ANSWER_BYTES: Final = 10_000_000
MAX_CONNECT_SECONDS: Final = 10.0
# Below the five seconds after which common servers close an idle connection: a call sent into one that is just being
# closed would be an unknown outcome for nothing.
KEEPALIVE_SECONDS: Final = 4.0


class HttpAdapter:
    """Lives on one event loop; the session, and with it the kept connections, opens at the first call."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def submit(self, call: Call, repeat: bool) -> Outcome:
        return await _timed(self._submit(call, repeat))

    async def poll(self, call: Call) -> Outcome:
        """What the work under the call's reference has come to."""
        return await _timed(self._ask(call, compile_poll, followed.read_poll))

    async def find(self, call: Call) -> Outcome:
        """What became of the work that was sent under the call's dispatch key."""
        return await _timed(self._ask(call, compile_find, followed.read_find))

    async def cancel(self, call: Call) -> Outcome:
        """Asks for the end of the work."""
        return await _timed(self._ask(call, compile_cancel, followed.read_cancel))

    def read_callback(self, call: Call, told: answer.Answer) -> Outcome:
        """What the upstream tells of the call unasked; `told` has the request's headers and body, and status 200."""
        scope = scope_of(call)
        try:
            outcome = followed.read_callback(compile_callback(call.upstream), call, scope, told)
            return result_files.carried(outcome, call, scope, told)
        except SpecError as error:
            return followed.unasked(str(error), call)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _submit(self, call: Call, repeat: bool) -> Outcome:
        scope = scope_of(call)
        try:
            if call.upstream.get("mode") == "lease":
                raise SpecError("mode", "this adapter knows sync, poll and callback, not 'lease'")
            submit = compile_submit(call.upstream)
            request = build_request(submit, call, scope)
        except (SpecError, ExpressionError) as error:
            return mapping.not_sent(str(error), call, repeat)
        received = await self.exchange(request)
        if isinstance(received, str):
            return mapping.no_answer(received, repeat)

        def understood(said: answer.Answer) -> Outcome:
            outcome = mapping.read_answer(submit, call, scope, said, repeat)
            return result_files.carried(outcome, call, scope, said)

        return await _beside(received.size, partial(understood, received))

    async def _ask(
        self,
        call: Call,
        compiled: Callable[[Mapping[str, Any]], S],
        read: Callable[[S, Call, Scope, answer.Answer], Outcome],
    ) -> Outcome:
        scope = scope_of(call)
        try:
            block = compiled(call.upstream)
            request = build_request(block, call, scope)
        except (SpecError, ExpressionError) as error:
            return followed.unasked(str(error), call)
        received = await self.exchange(request)
        if isinstance(received, str):
            return followed.unanswered(received)

        def understood(said: answer.Answer) -> Outcome:
            return result_files.carried(read(block, call, scope, said), call, scope, said)

        return await _beside(received.size, partial(understood, received))

    async def exchange(self, request: Request) -> answer.Answer | NoAnswer:
        """Sends and reads, within the request's time. Told apart: never sent, no answer, a cut."""
        try:
            async with asyncio.timeout(request.timeout_ms / 1_000):
                return await self._send(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ServerFingerprintMismatch):
            return "connect_failed"
        except TimeoutError:
            return "timeout"
        except (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError):
            return "unreadable_answer"
        except (aiohttp.ClientError, OSError):
            return "cut"

    async def _send(self, request: Request) -> answer.Answer | NoAnswer:
        # Connecting may take half the time at most. So when the whole time is over, the request had been sent.
        connect_seconds = min(MAX_CONNECT_SECONDS, request.timeout_ms / 2_000)
        async with self._open().request(
            request.method,
            request.url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds),
        ) as response:
            crashpoint("call.received")  # they have it, and nothing of their answer was read
            raw = bytearray()
            async for chunk in response.content.iter_any():
                raw += chunk
                if len(raw) > MAX_ANSWER_BYTES:
                    response.close()
                    return "answer_too_large"
            headers = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
            status, body = response.status, bytes(raw)
            return await _beside(len(body), partial(answer.read, status, headers, body))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # How many calls run at once is what sessions are for; a second limit here would only hide calls.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),  # one account's cookies are not another's
                headers={"User-Agent": "berth", "Accept": "application/json, */*;q=0.5"},
                trust_env=False,
            )
            # aiohttp sends PUT, DELETE and GET again by itself when a kept connection breaks. An outcome that is not
            # known is found out, never blindly repeated; there is no public switch for it.
            self._session._retry_connection = False
        return self._session


async def _beside(size: int, work: Callable[[], R]) -> R:
    """Reading what is large takes seconds, in which the loop would renew no lease and hear no other answer."""
    return work() if size <= answer.LARGE else await asyncio.to_thread(work)


async def _timed(asked: Awaitable[Outcome]) -> Outcome:
    started = time.monotonic()
    outcome = await asked
    return replace(outcome, elapsed_ms=round((time.monotonic() - started) * 1_000))
