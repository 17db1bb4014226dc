"""Logical processes: each has calls in flight, leases to keep, a writer of outcomes and, in turn with others, the sweep.

What runs is the product's own: the loop of `upstream.loop` with another event loop under it, whose coroutines are stepped by
hand, and an adapter whose `exchange` is the simulated network.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from django.conf import settings

from jobs import calls, sweep
from jobs.flow import Step
from tests.simulated.crew import Task
from upstream.answer import Answer
from upstream.calls import Action, Call, Outcome
from upstream.http import HttpAdapter
from upstream.loop import BEATS_PER_LEASE, CallLoop
from upstream.outcomes import OutcomeWriter
from upstream.request import Request
from upstream.wording import NoAnswer

WATCH_SECONDS = 0.5  # the loop looks at its leases so often


class Process:
    """One of our processes. `life` grows with each death: what a dead one was to do never happens."""

    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name = world, name
        self.life, self.paused_until_us = 0, 0
        self.tasks: list[Task] = []
        self.lives = False
        self.be_born()

    def be_born(self) -> None:
        self.lives, self.sweeping, self.writing, self.beating = True, False, False, False
        self.flying: dict[Any, Any] = {}
        self.coroutines: list[Coroutine[Any, Any, None]] = []
        self.loop = SimulatedLoop(self)
        if self.life:
            self.world.scheduler.say(self.name, "lives again")

    def enter(self) -> None:
        """What the product keeps per process is this one's from now on."""
        calls._loop, calls._flying = self.loop, self.flying

    def do(self, name: str, function: Callable[[], Any], seconds: float) -> Task:
        """A task of it, so many seconds from now."""
        task = Task(self, name, function, self.world.plan.fine)
        self.world.scheduler.spawn(task, seconds)
        return task

    def crash(self) -> None:
        """Everything that it had in memory is gone; open transactions are rolled back."""
        self.world.scheduler.say(self.name, "IS KILLED")
        self.life += 1
        self.lives = False
        for task in list(self.tasks):
            self.world.scheduler.kill(task)
        self.world.checks.crashed(self.flying)
        self.forget_calls()
        self.world.scheduler.at(self.world.random.uniform(0.5, 8), self.be_born)

    def forget_calls(self) -> None:
        """What waits for answers waits no more."""
        for coroutine in self.coroutines:
            coroutine.close()

    def ended(self, task: Task) -> None:
        """A task of it is done."""
        self.world.ended(task)
        if task.dead:
            return
        if task.name == "learn":
            self.writing = False
            self.write(self.loop.writer.pause_seconds)
        elif task.name == "beat":
            self._beat_later(
                settings.LEASE_SECONDS / BEATS_PER_LEASE / (1 if self.loop.beat_went_well else BEATS_PER_LEASE)
            )
        elif task.name == "sweep":
            self.sweeping = False

    def sweep(self, steps: list[Step]) -> None:
        """Those steps that the world says have something to do, as the sweeper's thread takes them."""
        self.sweeping = True
        self.do("sweep", lambda: sweep._run(steps), 0.0)

    def write(self, seconds: float = 0.0) -> None:
        """Its writer records what is there."""
        if not self.writing and self.loop.writer.has_something:
            self.writing = True
            self.do("learn", self.loop.writer.round, seconds + self.world.scheduler.step_seconds())

    def keep_leases(self) -> None:
        """From its first call on, until none is in flight."""
        if not self.beating:
            self._beat_later(self.world.random.uniform(0, settings.LEASE_SECONDS / BEATS_PER_LEASE))

    def _beat_later(self, seconds: float) -> None:
        self.beating = bool(self.loop.leased())
        if self.beating:
            self.do("beat", self.loop.beat, seconds)


class SimulatedLoop(CallLoop[Any]):
    """The product's loop; its threads are tasks of the scheduler, its event loop is `_EventLoop`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.beat_went_well = True
        super().__init__(calls._learn, calls._renew, settings.LEASE_SECONDS, calls._learn_apart)
        self.writer = self._writer = _Writer(process, calls._learn, self._recorded)
        self._adapters = {"http": _Adapter(process)}

    def start(
        self, key: Any, call: Call, action: Action = "submit", *, repeat: bool = False, leased_at: float | None = None
    ) -> bool:
        begun = super().start(key, call, action, repeat=repeat, leased_at=leased_at)
        if begun and action == "submit":
            self.process.keep_leases()
            self._watch_later(key)
            self.process.world.calls(self.process)
        return begun

    def leased(self) -> dict[Any, Any]:
        return {key: entry for key, entry in self._calls.items() if entry.action == "submit"}

    def beat(self) -> None:
        entries = self.leased()
        self.beat_went_well = not entries or self._beat(entries)

    def _started(self) -> Any:
        if self._loop is None:
            self._loop = _EventLoop(self.process)  # type: ignore[assignment]
        return self._loop

    def _recorded(self, key: Any) -> None:
        super()._recorded(key)
        self.process.world.checks.recorded(key, self.writer.outcomes.pop(key))

    def _watch_later(self, key: Any) -> None:
        entry = self._calls.get(key)
        if entry is None or entry.ended or entry.lost or math.isinf(entry.safe_until):
            return
        world = self.process.world
        left = entry.safe_until - world.clock.monotonic()
        if left <= 0:
            self._cancel(entry, "lease_lost")
        else:
            late = world.random.uniform(0, min(WATCH_SECONDS, self._lease_seconds / 30))
            world.scheduler.at(left + late, lambda: self._watch_later(key), self.process)


class _Writer(OutcomeWriter[Any]):
    """The product's writer, one round at a time."""

    def __init__(self, process: Process, learn: Any, recorded: Any) -> None:
        super().__init__(learn, recorded)
        self._process = process
        self.outcomes: dict[Any, Outcome] = {}

    @property
    def pause_seconds(self) -> float:
        """Until what failed is tried again: nobody waits for it in real time."""
        due = self._later[0][0] if self._later else 0.0
        return max(0.0, due - self._process.world.clock.monotonic())

    @property
    def has_something(self) -> bool:
        return bool(self._later) or not self._queue.empty()

    def put(self, key: Any, outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        super().put(key, outcome)
        self._process.write()

    def round(self) -> None:
        """As one turn of `run`."""
        batch, _ = self._next_batch()
        untried = [item for item in batch if not item.failures]
        alone = [item for item in batch if item.failures]
        if untried and not self._record(untried):
            alone += untried
        self._one_by_one(alone)


class _EventLoop:
    """What the product's loop asks of asyncio: to call soon, and to run coroutines."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last_us = 0

    def call_soon_threadsafe(self, function: Callable[..., Any], *arguments: Any) -> None:
        """In the order in which it is asked, as asyncio does."""
        world = self._process.world
        now = world.clock.us
        self._last_us = max(self._last_us, now + round(world.scheduler.step_seconds() * 1e6))
        world.scheduler.at((self._last_us - now) / 1e6, lambda: function(*arguments), self._process)

    call_soon = call_soon_threadsafe

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> "Stepped":
        self._process.coroutines.append(coroutine)
        stepped = Stepped(self._process, coroutine)
        self.call_soon(stepped.go_on)
        return stepped


class Stepped:
    """A coroutine that waits for nothing but exchanges."""

    def __init__(self, process: Process, coroutine: Coroutine[Any, Any, None]) -> None:
        self._process, self._coroutine = process, coroutine
        self._waits_for: Exchange | None = None
        self._done = False

    def go_on(self, received: Answer | NoAnswer | None = None) -> None:
        self._step(lambda: self._coroutine.send(received))

    def cancel(self) -> None:
        if not self._done:
            if self._waits_for is not None:
                self._waits_for.given_up = True
            self._step(lambda: self._coroutine.throw(asyncio.CancelledError()))

    def _step(self, step: Callable[[], "Exchange"]) -> None:
        if self._done:
            return
        try:
            self._waits_for = step()
            self._waits_for.begin(self)
        except StopIteration:
            self._done = True


class Exchange:
    """One request, until an answer or none comes back."""

    def __init__(self, process: Process, request: Request) -> None:
        self.process, self.request = process, request
        self.life = process.life
        self.given_up = False
        self._over = False

    def __await__(self) -> Generator["Exchange", Answer | NoAnswer, Answer | NoAnswer]:
        return (yield self)

    @property
    def is_heard(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.given_up and not self._over and self.process.life == self.life

    def begin(self, caller: Stepped) -> None:
        self._caller = caller
        self.process.world.network.send(self)

    def end(self, received: Answer | NoAnswer) -> None:
        """Hands in what came back; the first wins."""
        if self.is_heard:
            self._over = True
            self.process.world.scheduler.at(0.0, lambda: self._caller.go_on(received), self.process)


class _Adapter(HttpAdapter):
    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    async def exchange(self, request: Request) -> Answer | NoAnswer:
        return await Exchange(self._process, request)


logging.getLogger("upstream").setLevel(logging.CRITICAL)
