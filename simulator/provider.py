"""The provider itself: takes a request for work or refuses it, runs what it took, and ends it. No HTTP here."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from dataclasses import dataclass, field

from simulator.accounts import MOST_WAITING, Account, Accounts
from simulator.asks import Ask
from simulator.book import Book
from simulator.callbacks import Callbacks
from simulator.executions import Execution, job_reference
from simulator.faults import BadFault, Fault, Rules
from simulator.refusals import Refused
from simulator.times import Latency, now

OVER_LIMIT_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Taken:
    """A request that was not refused. `fault` is this request's own: a repeat meets another than the first did."""

    execution: Execution
    fault: Fault
    repeat: bool


@dataclass
class Provider:
    latency: Latency
    book: Book
    rules: Rules
    dice: random.Random
    idempotent: bool = True
    accounts: Accounts = field(default_factory=Accounts)
    callbacks: Callbacks = field(default_factory=Callbacks)
    flooded_until: float = 0.0

    def take(self, account: Account, kind: str, key: str, raw: bytes) -> Taken:
        """Accept work, join it to the execution its key already has, or raise Refused. Every call is in the book."""
        self.book.counts["received"] += 1
        try:
            taken = self._admit(account, kind, key, raw)
        except Refused as refusal:
            self.book.counts["refused"] += 1
            self.book.request(account.name, kind, key, refusal.code)
            raise
        self.book.request(account.name, kind, key, "repeat" if taken.repeat else "accepted")
        return taken

    def _admit(self, account: Account, kind: str, key: str, raw: bytes) -> Taken:
        ask = Ask.parse(raw)
        known = account.by_key.get(key) if key else None
        joins = known is not None and self.idempotent
        # Counted before any answer: sending this was the mistake, whatever we say to it.
        if account.is_full and not joins:
            self.book.counts["overlaps"] += 1
        self.refuse_flooded()
        try:
            fault = self.rules.pick(account.name, ask.sim, job_reference(key), joins)
        except BadFault as error:
            raise Refused(400, "bad_fault", str(error)) from error
        digest = hashlib.blake2b(raw, digest_size=16).digest()
        if known is not None and joins:
            return self._join(known, digest, fault)
        throttled = not account.has_room and self._over_limit(account)
        refuse_unexecuted(fault)
        if not account.can_pay(ask.units):
            raise Refused(402, "insufficient_balance", f"{account.name} has no units left for this")
        execution = Execution(
            id=f"{kind}-{len(self.book.executions) + 1:06d}",
            kind=kind,
            account=account,
            key=key,
            reference=job_reference(key),
            digest=digest,
            ask=ask,
            fault=fault,
            duration_seconds=self._duration_seconds(ask, fault),
            repeat_of=known.id if known is not None else "",
        )
        self.book.accepted(execution)
        if key:
            account.by_key[key] = execution
        if throttled:
            account.waiting.append(execution)
        else:
            self._start(execution)
        return Taken(execution, fault, repeat=False)

    def _join(self, known: Execution, digest: bytes, fault: Fault) -> Taken:
        if known.digest != digest:
            raise Refused(422, "key_reused", "this key was used with another body")
        refuse_unexecuted(fault)
        known.repeats += 1
        self.book.counts["repeats"] += 1
        return Taken(known, fault, repeat=True)

    def _over_limit(self, account: Account) -> bool:
        """True: it may wait (THROTTLED). Else refused, and banned where that is this account's way."""
        way = account.over_limit_fault or account.over_limit
        if way == "queue" and len(account.waiting) < MOST_WAITING:
            self.book.counts["throttled"] += 1
            return True
        self.book.counts["rejected_over_limit"] += 1
        if way == "ban":
            account.banned = True
            raise Refused(403, "banned", f"{account.name} went over its limit and is banned")
        message = f"{account.name} runs {len(account.running)} of {account.sessions} sessions"
        raise Refused(429, "over_limit", message, str(OVER_LIMIT_RETRY_SECONDS))

    def refuse_flooded(self) -> None:
        """The limit by address: while it lasts, nobody gets anything."""
        left_seconds = self.flooded_until - now()
        if left_seconds > 0:
            raise Refused(429, "address_limited", "too many requests from your address", str(math.ceil(left_seconds)))

    def _duration_seconds(self, ask: Ask, fault: Fault) -> float:
        for wanted in (fault.duration_seconds, ask.duration_seconds):
            if wanted is not None:
                return wanted
        return self.latency.draw(self.dice)

    def _start(self, execution: Execution) -> None:
        execution.account.seat(execution)
        execution.started_at = now()
        # A timer of the provider's own: no caller who hangs up can shorten the work.
        asyncio.get_running_loop().call_later(execution.duration_seconds, self.end, execution)

    def end(self, execution: Execution, outcome: str = "") -> None:
        """The session is over. Does nothing when it already was."""
        if execution.ended_at is not None:
            return
        account = execution.account
        execution.outcome, execution.billed = _result(execution, outcome)
        execution.ended_at = now()
        account.leave(execution)
        if account.balance is not None:
            account.balance -= execution.billed
        self.book.ended(execution)
        for waiter in execution.waiters:
            if not waiter.done():
                waiter.set_result(None)
        execution.waiters.clear()
        if execution.ask.callback_url and not execution.fault.no_callback:
            self.callbacks.send(execution)
        self.start_waiting(account)

    def start_waiting(self, account: Account) -> None:
        while account.waiting and account.has_room:
            self._start(account.waiting.popleft())

    def cancel(self, execution: Execution) -> None:
        """As the execution's fault says: at once, after a while, or never."""
        self.book.counts["cancels"] += 1
        execution.cancel_requested = True
        if execution.fault.cancel_ignored:
            return
        if execution.fault.cancel_slow:
            loop = asyncio.get_running_loop()
            loop.call_later(execution.fault.cancel_slow, self.end, execution, "cancelled")
        else:
            self.end(execution, "cancelled")


def refuse_unexecuted(fault: Fault) -> None:
    """`fail` without `late` or `billed` is an answer, not an execution."""
    if fault.fail is not None and not fault.fail.executed:
        raise Refused(fault.fail.code, "failed", "this failure was asked for", fault.fail.retry_after)


def _result(execution: Execution, outcome: str) -> tuple[str, float]:
    """How it ended and what it costs, in units."""
    fault = execution.fault
    if outcome:
        return outcome, 0.0
    if fault.fail is not None:
        return "failed", execution.ask.units if fault.fail.billed else 0.0
    if fault.error_body:
        return "failed", 0.0
    if fault.partial is not None:
        return "partial", execution.ask.units * fault.partial
    return "done", execution.ask.units
