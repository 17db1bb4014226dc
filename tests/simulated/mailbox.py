"""Redis and the broker, simulated: messages come, come late, come twice or never; flags and messages are forgotten at times."""

import json
from typing import Any

import redis

from jobs import publisher, redis_hints, tasks
from tests.simulated.crew import Task


class Switch:
    """A breaker that knows at once whether what it guards answers."""

    def __init__(self) -> None:
        self.closed = True

    def failed(self, error: BaseException) -> None:
        """The mailbox says when it is back."""


class Mailbox:
    """What wakes tasks in the workers of a world."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._era = 0  # messages of an earlier one are gone
        self._at_work: dict[Task, tuple[str, str]] = {}
        self.under_way = 0
        self.flags = _Flags(world)
        self.switch = Switch()
        redis_hints._client = self.flags  # type: ignore[assignment]
        redis_hints.breaker = publisher.breaker = self.switch  # type: ignore[assignment]
        publisher.publish = self.publish

    def publish(self, task: str, arguments: list[Any], countdown: float) -> None:
        """In the place of the publisher's own."""
        self.flags.ask()
        plan, random = self._world.plan, self._world.random
        copies = 0 if random.random() < plan.lost else 2 if random.random() < plan.doubled else 1
        self._world.scheduler.say("message", f"{task} {f'x{copies}' if copies else 'is lost'}")
        for _ in range(copies):
            late = random.expovariate(1 / plan.late_seconds) if random.random() < plan.late else 0.0
            self._send(self._era, task.removeprefix("jobs."), json.dumps(arguments), countdown + late + 0.002)

    def be_emptied(self) -> None:
        self._world.scheduler.say("redis", "is emptied")
        self._era += 1
        self.under_way = 0
        self.flags.until_us.clear()

    def go_away(self, seconds: float) -> None:
        """It answers nobody for so long, and has lost all then."""
        self.be_emptied()
        self._world.scheduler.say("redis", "is away")
        self.flags.answers = self.switch.closed = False
        self._world.scheduler.at(seconds, self.come_back)

    def come_back(self) -> None:
        self.flags.answers = self.switch.closed = True

    def ended(self, task: Task) -> None:
        """Messages are acknowledged late: what a dead worker was at may come again."""
        name, arguments = self._at_work.pop(task, ("", ""))
        if name and task.dead and self._world.random.random() < 0.5:
            self._send(self._era, name, arguments, 1.0)

    def _send(self, era: int, task: str, arguments: str, seconds: float) -> None:
        self.under_way += 1
        self._world.scheduler.at(seconds, lambda: self._arrive(era, task, arguments))

    def _arrive(self, era: int, name: str, arguments: str) -> None:
        if era != self._era:
            return
        self.under_way -= 1
        living = [process for process in self._world.workers if process.lives]
        if not living:
            self._send(era, name, arguments, 0.2)
            return
        given: list[Any] = json.loads(arguments)
        process = self._world.random.choice(living)
        task = process.do(name, lambda: getattr(tasks, name)(*given), 0.0)
        self._at_work[task] = (name, arguments)


class _Flags:
    """Stands for the client of Redis."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.until_us: dict[str, int] = {}
        self.answers = True

    def set(self, name: str, _value: str, *, nx: bool, px: int) -> bool:
        self.ask()
        if nx and self.until_us.get(name, -1) > self._world.clock.us:
            return False
        self.until_us[name] = self._world.clock.us + px * 1_000
        return True

    def delete(self, name: str) -> None:
        self.ask()
        self.until_us.pop(name, None)

    def publish(self, _channel: str, _message: str) -> None:
        self.ask()

    def ask(self) -> None:
        if not self.answers:
            raise redis.ConnectionError("away")
