"""Who goes on, and when: a queue of what happens at which virtual time. The seed draws each delay, and so the order."""

import heapq
import itertools
import queue
import random
import re
from collections.abc import Callable
from typing import Any

from tests.simulated import clock
from tests.simulated.clock import Clock
from tests.simulated.crew import Crew, Task

LOCK_SECONDS = 0.004  # of real time, after which it is asked whether a statement waits for a lock
STUCK_SECONDS = 20  # of real time: then the simulator itself is broken
_WAITING = "SELECT pid FROM unnest(%s) pid WHERE cardinality(pg_blocking_pids(pid)) > 0"
_BLOCKING = "SELECT DISTINCT unnest(pg_blocking_pids(pid)) FROM unnest(%s) pid"
_WORDS = re.compile(r"\s+")


class Scheduler:
    """One run of virtual time. `random` is drawn from by the scheduler's thread alone."""

    def __init__(self, seed: int, crew: Crew, now: Clock, cursor: Any) -> None:
        self.random = random.Random(seed)
        self.clock, self.crew, self.cursor = now, crew, cursor
        self.trace: list[str] = []
        self.active: list[Task] = []
        self.step_seconds: Callable[[], float] = lambda: 0.001
        self._queue: list[tuple[int, int, Any, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._told_us = -1
        self.one_waits = (
            True  # who holds a lock that is waited for goes on alone: of two who wait, chance draws the first
        )
        self._deferred: list[Task] = []
        self.runs = 0  # of tasks: as long as it stays, the database stays as it is

    def at(self, seconds: float, what: Callable[[], None], process: Any = None) -> None:
        """Does it so many seconds from now; what belongs to a process ends with it."""
        due = self.clock.us + max(0, round(seconds * 1e6))
        life = 0 if process is None else process.life
        heapq.heappush(self._queue, (due, next(self._order), process, life, what))

    def spawn(self, task: Task, seconds: float) -> None:
        """The task begins so many seconds from now."""
        self.at(seconds, lambda: self._begin(task), task.process)

    def say(self, who: object, what: str) -> None:
        self.trace.append(f"{self.clock.us / 1e6:10.4f}  {who!s:<22} {_WORDS.sub(' ', what).strip()[:110]}")

    def next_seconds(self) -> float | None:
        """How long until something happens; None: nothing will."""
        return (self._queue[0][0] - self.clock.us) / 1e6 if self._queue else None

    def step(self) -> None:
        """The next thing happens."""
        due, _, process, life, what = heapq.heappop(self._queue)
        if process is not None:
            if process.life != life:
                return
            if process.paused_until_us > due:
                heapq.heappush(self._queue, (process.paused_until_us, next(self._order), process, life, what))
                return
        self.clock.us = max(self.clock.us, due)
        what()

    def kill(self, task: Task) -> None:
        """It does nothing more; what it has not committed is rolled back."""
        task.dead = True
        if not task.blocked:
            self._let_on(task)

    def tell_time(self) -> None:
        if self._told_us != self.clock.us:
            self._told_us = self.clock.us
            clock.set_to(self.cursor, self.clock.us)

    def _begin(self, task: Task) -> None:
        if self.crew.is_full:
            self.spawn(task, 0.005)
            return
        self.active.append(task)
        task.process.tasks.append(task)
        self._run(task, lambda: self.crew.begin(task))

    def _let_on(self, task: Task) -> None:
        if task.done or task.blocked:
            return
        if self.one_waits and not task.dead and self._is_to_wait(task):
            self._deferred.append(task)
            return
        self.say(task, task.at if not task.dead else "is no more")
        self._run(task, task.gate.release)

    def _run(self, task: Task, start: Callable[[], None]) -> None:
        self.runs += 1
        task.process.enter()
        self.tell_time()
        task.committed = 0
        start()
        self._settle([task])

    def _settle(self, running: list[Task]) -> None:
        """Until each has stopped, is done, or waits for a lock that another holds; then those that such a lock let on."""
        stopped: list[Task] = []
        waited = 0.0
        while running:
            try:
                task = self.crew.posts.get(timeout=LOCK_SECONDS)
                stopped.append(task)
                running = [each for each in running if each is not task]  # one that waited may be faster than we ask
            except queue.Empty:
                waited += LOCK_SECONDS
                for task in self._waiting(running):
                    running.remove(task)
                    if not task.blocked:  # else the next in the row's queue was asked for between two waits
                        task.blocked = True
                        self.say(task, "waits for a lock")
                if waited > STUCK_SECONDS:
                    raise RuntimeError(
                        f"stuck: {[str(task) for task in running]}\n" + "\n".join(self.trace[-40:])
                    ) from None
            if not running and (blocked := [task for task in self.active if task.blocked and task not in stopped]):
                waiting = self._waiting(blocked)
                running = [task for task in blocked if task not in waiting]
        for task in sorted(stopped, key=lambda each: each.number):
            self._stopped(task)
        deferred, self._deferred = self._deferred, []
        for task in deferred:
            self._again(task, 0.0)

    def _is_to_wait(self, task: Task) -> bool:
        blocked = [each.pid for each in self.active if each.blocked]
        if not blocked:
            return False
        self.cursor.execute(_BLOCKING, [blocked])
        return not (task.in_transaction and task.pid in {pid for (pid,) in self.cursor.fetchall()})

    def _again(self, task: Task, seconds: float) -> None:
        self.at(seconds, lambda: self._let_on(task), task.process)

    def _stopped(self, task: Task) -> None:
        task.blocked = False
        if not task.done:
            if task.dead:
                self._let_on(task)
            else:
                self._again(task, self.step_seconds())
            return
        self.active.remove(task)
        task.process.tasks.remove(task)
        task.process.ended(task)

    def _waiting(self, tasks: list[Task]) -> list[Task]:
        self.cursor.execute(_WAITING, [[task.pid for task in tasks]])
        pids = {pid for (pid,) in self.cursor.fetchall()}
        return [task for task in tasks if task.pid in pids]
