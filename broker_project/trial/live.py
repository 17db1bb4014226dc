"""Tries what is declared against the upstream itself: asks for what cannot be there, and, when told to, sends one payload.

Nothing is stored and no session is taken: a payload that is sent runs beside the jobs of Berth.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_project.trial.wording import in_words, mistake
from upstream.adapters import Adapter, adapter, ask
from upstream.calls import Action, Call, Outcome
from upstream.following import compile_callback, compile_cancel, compile_find, compile_poll
from upstream.spec import SpecError, compile_submit
from upstream.watched import WatchedAdapter
from upstream.ways import Ways, ways
from upstream.wording import redacted

MADE_UP: Final = "berth-check-"  # begins every reference and key that is asked for and cannot be there
LONGEST_LINE: Final = 300
TOLD_EVERY_SECONDS: Final = 10.0  # while nothing is to be done but wait
WAIT: Final = "wait"
COMPILED: Final[dict[str, Callable[[Mapping[str, Any]], object]]] = {
    "submit": compile_submit,
    "poll": compile_poll,
    "find": compile_find,
    "cancel": compile_cancel,
    "callback": compile_callback,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried, or `wait`. `problem` is empty when it went as it should.

    `broken`: the status of an answer, or why there was none, where the upstream itself failed and nothing of ours did.
    """

    name: str
    found: str
    asked: str = ""  # the request line, and what came
    problem: str = ""
    broken: str = ""


def compiled(upstream: Mapping[str, Any]) -> Step:
    """Whether every declared block compiles."""
    blocks = [name for name in COMPILED if name == "submit" or upstream.get(name)]
    try:
        for name in blocks:
            COMPILED[name](upstream)
    except SpecError as error:
        return Step("compile", "", problem=str(error))
    return Step("compile", ", ".join(blocks))


class Trial:
    """One job type on one account. `call` has the account, the merged block and what a tenant would send."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ways: Ways = ways(call.upstream)
        name = str(call.upstream.get("adapter") or "http")
        self._adapter: Adapter = WatchedAdapter() if name == "http" else adapter(name)

    async def close(self) -> None:
        await self._adapter.close()

    async def of_nothing(self) -> AsyncIterator[Step]:
        """Asks for a reference and a key that cannot be there."""
        nothing = replace(self.call, key=MADE_UP + uuid.uuid4().hex, reference=MADE_UP + uuid.uuid4().hex)
        if self.ways.polls:
            outcome, step = await self._asked("poll", nothing)
            yield replace(step, problem=_problem_of_nothing(outcome, ("unknown",)))
        if self.ways.finds:
            outcome, step = await self._asked("find", replace(nothing, reference=""))
            yield replace(step, problem=_problem_of_nothing(outcome, ("unknown", "not_executed")))

    async def of_payload(self, patience_seconds: float) -> AsyncIterator[Step]:
        """Sends the payload once and follows it to its end, at most so long."""
        end = time.monotonic() + patience_seconds
        call = replace(self.call, key=MADE_UP + uuid.uuid4().hex)
        yield Step(WAIT, "the payload is sent; its answer is waited for")
        outcome, step = await self._asked("submit", call)
        yield replace(step, problem=_unreadable(outcome) or mistake(outcome))
        while not outcome.over:
            call = replace(call, reference=outcome.reference or call.reference)
            action = self._next(call, outcome)
            pause_ms = outcome.retry_after_ms or (self.ways.find_after_ms if action == "find" else self.ways.every_ms)
            if action is None or time.monotonic() + pause_ms / 1_000 > end:
                why = "it cannot be asked for" if action is None else f"it had not ended after {patience_seconds:g} s"
                yield Step("end", "", problem=f"{why}; what runs there goes on")
                return
            async for waiting in self._waits(pause_ms / 1_000, action):
                yield waiting
            outcome, step = await self._asked(action, call)
            yield replace(step, problem=mistake(outcome))
        problem = "what came of it is unknown" if outcome.verdict == "unknown" else ""
        if outcome.unread is not None:
            problem = f"its result is there, and would not be found: {outcome.error_message}"
        yield Step("end", redacted(in_words(outcome), call, LONGEST_LINE), problem=problem)

    async def _waits(self, seconds: float, action: Action) -> AsyncIterator[Step]:
        """Says now and then how long it still takes: a fallback of minutes must not look like a command that hangs."""
        why = " (poll.fallback: no callback is heard here)" if self.ways.mode == "callback" and action == "poll" else ""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if seconds >= 1:
                yield Step(WAIT, f"{left:.0f} s until the next {action}{why}")
            await asyncio.sleep(min(left, TOLD_EVERY_SECONDS))

    def _next(self, call: Call, outcome: Outcome) -> Action | None:
        if self.ways.polls and (call.reference or not self.ways.poll_needs_reference):
            return "poll"
        # In mode sync the answer was all there is, but what became of a lost one may be found.
        return "find" if self.ways.finds and (outcome.verdict == "unknown" or self.ways.mode != "sync") else None

    async def _asked(self, action: Action, call: Call) -> tuple[Outcome, Step]:
        outcome = await ask(self._adapter, action, call)
        line, broken = "not sent" if isinstance(self._adapter, WatchedAdapter) else "by an adapter of its own", ""
        if isinstance(self._adapter, WatchedAdapter) and self._adapter.seen:
            exchange = self._adapter.seen.pop()
            line = f"{redacted(exchange.line, call, LONGEST_LINE)} -> {exchange.came}"
            broken = exchange.came if exchange.came == "cut" or exchange.came.startswith("5") else ""
        return outcome, Step(action, redacted(in_words(outcome), call, LONGEST_LINE), line, broken=broken)


def _problem_of_nothing(outcome: Outcome, expected: tuple[str, ...]) -> str:
    if outcome.verdict not in expected:
        return "the mapping believes in something that was never sent"
    return _unreadable(outcome)


def _unreadable(outcome: Outcome) -> str:
    """Why an answer says nothing of the work: none came, the account was refused, or nothing could be sent."""
    if outcome.error_class == "auth":
        return "the account is refused"
    if outcome.status is None and outcome.error_code:
        return outcome.error_message or outcome.error_code
    return ""
