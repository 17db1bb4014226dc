"""Calls in flight live on an event loop, on a thread of its own beside the worker; a call costs a coroutine.

Three threads: `calls` makes them, `outcomes` hands in what came of them, `leases` keeps their leases alive. A call
whose lease is lost, or could not be renewed in time, is cancelled before anyone else may take the lease. Only what
starts work has a lease; what asks about it may be asked by anybody.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Generic, TypeVar

import uvloop

from statemachine.crashpoints import crashpoint
from upstream.adapters import Adapter, UnknownAdapterError, adapter, ask
from upstream.calls import Action, Call, Outcome
from upstream.mapping import not_sent
from upstream.outcomes import OutcomeWriter

K = TypeVar("K", bound=Hashable)

BEATS_PER_LEASE: Final = 3
MARGIN_OF_LEASE: Final = 0.2  # a call stops this much of the lease before its end
WATCHES_PER_LEASE: Final = 30

logger = logging.getLogger(__name__)


class NotAcceptingError(RuntimeError):
    """The loop drains or has stopped; the call was not started."""


class _InFlight:
    """A call from its start until its outcome is recorded; its lease, if it has one, is renewed as long."""

    __slots__ = ("action", "begun", "call", "ended", "lost", "repeat", "safe_until", "task")

    def __init__(self, call: Call, action: Action, repeat: bool, safe_until: float) -> None:
        self.call = call
        self.action = action
        self.repeat = repeat
        self.safe_until = safe_until
        self.task: asyncio.Task[None] | None = None
        self.begun = False  # its task has taken its first step, and may be cancelled
        self.lost = ""  # why it was cancelled
        self.ended = False  # the call is over; its outcome may still wait to be recorded


class CallLoop(Generic[K]):
    """`on_outcomes` records a batch, on one thread, but for the keys it gives back: those `on_apart` records, one by one on
    others. `renew` extends leases and gives those of the keys still ours.

    Both run outside the event loop and may use the database. Threads start with the first call and are daemons.
    """

    def __init__(
        self,
        on_outcomes: Callable[[list[tuple[K, Outcome]]], Collection[K] | None],
        renew: Callable[[list[K]], set[K]],
        lease_seconds: float,
        on_apart: Callable[[K, Outcome], None] | None = None,
    ) -> None:
        self._renew = renew
        self._lease_seconds = lease_seconds
        self._patience = lease_seconds * (1 - MARGIN_OF_LEASE)
        self._writer: OutcomeWriter[K] = OutcomeWriter(on_outcomes, self._recorded, on_apart)
        self._calls: dict[K, _InFlight] = {}
        self._changed = threading.Condition()
        self._adapters: dict[str, Adapter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._accepting = True
        self._stopping = threading.Event()
        self._woken = asyncio.Event()  # the same for the event loop

    @property
    def in_flight(self) -> int:
        """Calls that run, and those whose outcome is not recorded yet."""
        return len(self._calls)

    def start(
        self, key: K, call: Call, action: Action = "submit", *, repeat: bool = False, leased_at: float | None = None
    ) -> bool:
        """Begins a call and returns at once; False if one with this key is in flight already.

        `leased_at`: time.monotonic() when the lease was taken, if that was noticeably before. Raises NotAcceptingError.
        """
        since = time.monotonic() if leased_at is None else leased_at
        safe_until = since + self._patience if action == "submit" else math.inf
        with self._changed:
            if not self._accepting:
                raise NotAcceptingError("this worker takes no more calls")
            if key in self._calls:
                return False
            entry = self._calls[key] = _InFlight(call, action, repeat, safe_until)
            loop = self._started()
        loop.call_soon_threadsafe(self._begin, key, entry)
        return True

    def drain(self, timeout_seconds: float) -> int:
        """Takes no more calls and waits until all outcomes are recorded; gives how many are not when time is up."""
        with self._changed:
            self._accepting = False
            self._changed.wait_for(lambda: not self._calls, timeout_seconds)
            return len(self._calls)

    def stop(self, timeout_seconds: float = 5.0) -> int:
        """Cancels what still runs (outcome unknown), records what it can in that time, ends the threads.

        Gives how many outcomes could not be recorded; the leases of those calls run out.
        """
        with self._changed:
            self._accepting = False
            if self._loop is None or self._stopping.is_set():
                return len(self._calls)
            running = list(self._calls.values())
        for entry in running:
            self._cancel(entry, "worker_stopped")
        unrecorded = self.drain(timeout_seconds)
        self._stopping.set()
        with suppress(RuntimeError):  # the watch has seen it by itself, and the loop is closed
            self._loop.call_soon_threadsafe(self._woken.set)
        self._writer.stop()
        for thread in self._threads:
            thread.join(timeout_seconds)
        return unrecorded

    # --- calls ---

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = uvloop.new_event_loop()
            targets = {"calls": self._run_calls, "leases": self._run_leases, "outcomes": self._writer.run}
            for name, target in targets.items():
                thread = threading.Thread(target=target, name=f"berth-{name}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return self._loop

    def _run_calls(self) -> None:
        assert self._loop is not None  # noqa: S101 - set before this thread starts
        asyncio.set_event_loop(self._loop)
        try:
            self._watch(self._loop)
            self._loop.run_until_complete(self._woken.wait())
            for kept in self._adapters.values():
                self._loop.run_until_complete(kept.close())
        finally:
            self._loop.close()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fences: also while a renewal hangs, no call outlives the time its lease is certain for.

        A timer, not a coroutine: after the process stood still, what is due runs before any call goes on with what came
        for it meanwhile, e.g. its connection. So what was not sent before is not sent then.
        """
        if self._stopping.is_set():
            self._woken.set()
            return
        loop.call_later(min(self._lease_seconds / WATCHES_PER_LEASE, 0.5), self._watch, loop)
        now = time.monotonic()
        with self._changed:
            entries = list(self._calls.values())
        for entry in entries:
            if entry.ended:
                continue
            if now >= entry.safe_until:
                entry.lost = entry.lost or "lease_lost"
            # Each time anew: an adapter may lose a cancel (asyncio.wait_for does, before Python 3.12).
            if entry.lost and entry.begun and entry.task is not None:  # else it is seen as it begins
                entry.task.cancel()

    def _begin(self, key: K, entry: _InFlight) -> None:
        assert self._loop is not None  # noqa: S101
        entry.task = self._loop.create_task(self._make(key, entry))

    async def _make(self, key: K, entry: _InFlight) -> None:
        entry.begun = True
        # Looked at as late as can be: the process may have stood still since the lease was taken, and others hold it by now.
        if time.monotonic() >= entry.safe_until:
            entry.lost = entry.lost or "lease_lost"
        try:
            outcome = _unsent(entry) if entry.lost else await self._call(entry)
        except asyncio.CancelledError:
            outcome = _unknown(entry.lost or "worker_stopped", "the call was given up before it was answered")
        except Exception as error:  # noqa: BLE001 - an adapter's fault must not take the attempt's outcome with it
            # By type only: a message may quote the request, and with it the credential.
            logger.error("adapter failed: %s", type(error).__name__)
            outcome = _unknown("adapter_error", f"the adapter failed with {type(error).__name__}")
        crashpoint("dispatch.answered", entry.action == "submit")
        crashpoint("verify.answered", entry.action in ("poll", "find"))
        crashpoint("cancel.answered", entry.action == "cancel")
        entry.ended = True
        self._writer.put(key, outcome)

    async def _call(self, entry: _InFlight) -> Outcome:
        call = entry.call
        name = str(call.upstream.get("adapter") or "http")
        if name not in self._adapters:
            try:
                self._adapters[name] = adapter(name)
            except UnknownAdapterError as error:
                # Neither the job's fault nor the account's: another process may have it, or a newer version.
                unsent = not_sent(str(error), call, entry.repeat or entry.action != "submit")
                return replace(unsent, error_class="", error_code="adapter_missing")
        return await ask(self._adapters[name], entry.action, call, entry.repeat)

    def _cancel(self, entry: _InFlight, why: str) -> None:
        if entry.ended or entry.lost or self._loop is None:
            return
        entry.lost = why
        if entry.task is not None:  # else it is cancelled as it begins
            with suppress(RuntimeError):  # the loop has stopped meanwhile, and the call with it
                self._loop.call_soon_threadsafe(entry.task.cancel)

    def _recorded(self, key: K) -> None:
        with self._changed:
            self._calls.pop(key, None)
            self._changed.notify_all()

    # --- leases ---

    def _run_leases(self) -> None:
        beat = pause = self._lease_seconds / BEATS_PER_LEASE
        while not self._stopping.wait(pause):
            with self._changed:
                entries = {key: entry for key, entry in self._calls.items() if entry.action == "submit"}
            pause = beat if not entries or self._beat(entries) else beat / BEATS_PER_LEASE

    def _beat(self, entries: dict[K, _InFlight]) -> bool:
        asked_at = time.monotonic()
        try:
            ours = self._renew(list(entries))
        except Exception:  # whatever it is, the leases were not renewed; the watch ends the calls in time
            logger.exception("leases of %d calls could not be renewed", len(entries))
            return False
        for key, entry in entries.items():
            if key in ours:
                entry.safe_until = asked_at + self._patience
            else:
                self._cancel(entry, "lease_lost")
        return True


def _unsent(entry: _InFlight) -> Outcome:
    unknown = entry.repeat or entry.action != "submit"
    return Outcome(
        over=not unknown,
        verdict="unknown" if unknown else "not_executed",
        error_class="transient",
        status=None,
        units=None,
        error_code=entry.lost,
        error_message="the call was given up before it was sent",
    )


def _unknown(code: str, message: str) -> Outcome:
    return Outcome(over=False, verdict="unknown", status=None, units=None, error_code=code, error_message=message)
