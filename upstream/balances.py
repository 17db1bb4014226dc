"""What an account has left at its provider: one request, one number. Anything else that comes back is no reading.

Asked over HTTP whatever the adapter of the jobs. A balance below zero is a number like any other: some providers let
an account overdraw.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from credits.pricing import PriceError, balance_to_micro
from upstream.answer import Answer
from upstream.calls import Call
from upstream.expressions import PROBE_NAMES, Expression, ExpressionError, Scope
from upstream.http import HttpAdapter
from upstream.request import build_request
from upstream.spec import Sending, SpecError, optional, sending
from upstream.wording import NO_ANSWER, redacted

ACCOUNT_NAMES: Final = frozenset({"account"})
DEFAULT_TIMEOUT_MS: Final = 10_000
AT_ONCE: Final = 10
MAX_PROBLEM_LENGTH: Final = 300


@dataclass(frozen=True, slots=True)
class Balance(Sending):
    """How the balance is asked for; `value` takes the credits from the answer."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Said:
    """Micro-credits, or None and why there is no reading."""

    left: int | None
    problem: str = ""


def compile_balance(upstream: Mapping[str, Any]) -> Balance:
    """The compiled `balance` of a pool's `upstream`, whose headers are sent too; once per content. Raises SpecError."""
    return _compiled(json.dumps([upstream.get("headers"), upstream.get("balance")], sort_keys=True))


def ask(calls: Sequence[Call], deadline_seconds: float) -> list[Said]:
    """Asks for the balance of the account of each call, some at once; who was not answered by the deadline has said nothing.

    Of a call only account, base_url and upstream are looked at. Blocks; not for inside a transaction.
    """
    return asyncio.run(_ask_all(calls, deadline_seconds)) if calls else []


async def _ask_all(calls: Sequence[Call], deadline_seconds: float) -> list[Said]:
    adapter, gate = HttpAdapter(), asyncio.Semaphore(AT_ONCE)
    end = asyncio.get_running_loop().time() + deadline_seconds

    async def one(call: Call) -> Said:
        try:
            async with asyncio.timeout_at(end), gate:
                return await _ask(adapter, call)
        except TimeoutError:
            return Said(None, "there was no time left to ask")

    try:
        return await asyncio.gather(*(one(call) for call in calls))
    finally:
        await adapter.close()


async def _ask(adapter: HttpAdapter, call: Call) -> Said:
    scope = Scope({"account": call.account})
    try:
        balance = compile_balance(call.upstream)
        received = await adapter.exchange(build_request(balance, call, scope))
    except (SpecError, ExpressionError) as error:
        return _nothing(call, f"it cannot be asked: {error}")
    if isinstance(received, str):
        return Said(None, NO_ANSWER[received])
    return _read(balance, call, scope, received)


def _read(balance: Balance, call: Call, scope: Scope, answer: Answer) -> Said:
    """A refusal may hold a number too, but it says that something is wrong, not what is left."""
    if not 200 <= answer.status < 300:
        return Said(None, f"the upstream answered {answer.status}")
    if not answer.readable:
        return Said(None, "the answer promises JSON that cannot be read")
    scope.set("response", answer.as_value())
    try:
        return Said(balance_to_micro(balance.value.evaluate(scope)))
    except (ExpressionError, PriceError) as error:
        return _nothing(call, f"the answer has no balance: {error}")


def _nothing(call: Call, problem: str) -> Said:
    return Said(None, redacted(problem, call, MAX_PROBLEM_LENGTH))


@lru_cache(maxsize=256)
def _compiled(key: str) -> Balance:
    common_headers, block = json.loads(key)
    if not isinstance(block, dict):
        raise SpecError("balance", "is not declared")
    made = sending("balance", block, common_headers, ACCOUNT_NAMES, method="GET", timeout_ms=DEFAULT_TIMEOUT_MS)
    value = optional("balance", block, "value", PROBE_NAMES)
    if value is None:
        raise SpecError("balance.value", "is required: the number of credits, CEL over account and response")
    return Balance(**made, value=value)
