"""The network and the provider behind it, simulated. The provider keeps a book, and knows its own limits strictly.

It believes nothing that we say of ourselves: how many sessions an account has it was told once, and each execution is
counted when it begins.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulated.plan import Kind
from tests.simulated.process import Exchange
from upstream.answer import Answer

Answering = Callable[[int, Mapping[str, Any]], None]
RETRY_AFTER_SECONDS = 1


@dataclass
class Work:
    """One piece of work under a dispatch key. `executions`: how often it was begun."""

    key: str
    account: str
    kind: Kind
    units: int
    state: str = "running"
    executions: int = 1
    waiting: list[Answering] = field(default_factory=list)

    @property
    def job(self) -> str:
        return self.key.split(".")[1]

    def said(self) -> dict[str, Any]:
        return {"id": f"ref-{self.key}", "status": self.state, "units": self.units}


class Network:
    """Carries requests to the provider and answers back; both may be lost on the way."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.provider = Provider(world)

    def send(self, exchange: Exchange) -> None:
        """Something comes back within the request's time."""
        world, plan = self._world, self._world.plan
        request = exchange.request
        world.scheduler.at(request.timeout_ms / 1_000, lambda: exchange.end("timeout"), exchange.process)
        draw = world.random.random()
        if draw < plan.refused:
            self._later(lambda: exchange.end("connect_failed"))
        elif draw < plan.refused + plan.cut_before:
            world.scheduler.say("network", f"loses {request.url.path}")
            if world.random.random() < 0.7:
                self._later(lambda: exchange.end("cut"))
        else:
            self._later(lambda: self._arrive(exchange))

    def _arrive(self, exchange: Exchange) -> None:
        request = exchange.request

        def answer(status: int, body: Mapping[str, Any]) -> None:
            self._answer(exchange, status, body)

        self.provider.receive(request.url.path, request.headers, answer)

    def _answer(self, exchange: Exchange, status: int, body: Mapping[str, Any]) -> None:
        world = self._world
        if world.random.random() < world.plan.cut_after:
            world.scheduler.say("network", f"loses the answer {status} to {exchange.request.url.path}")
            if world.random.random() < 0.7:
                self._later(lambda: exchange.end("cut"))
            return
        world.answers(exchange.process)
        headers = {"content-type": "application/json"} | (
            {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 429 else {}
        )
        self._later(lambda: exchange.end(Answer(status, headers, dict(body))))

    def _later(self, what: Callable[[], None]) -> None:
        random = self._world.random
        seconds = (
            random.uniform(0.001, 0.02) if self._world.plan.calm or random.random() < 0.8 else random.uniform(0, 0.8)
        )
        self._world.scheduler.at(seconds, what)


class Provider:
    """Executes; its book is what money and safety are judged by."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.works: dict[str, Work] = {}
        self.received: dict[str, int] = {}  # submits, by dispatch key

    def receive(self, path: str, headers: Mapping[str, str], answer: Answering) -> None:
        _, what, name = path.split("/")
        if what == "run":
            self._submit(headers["Idempotency-Key"], headers["Authorization"].removeprefix("Bearer "), name, answer)
        elif self._hits("error"):
            answer(500, {"status": "broken"})
        elif (work := self.works.get(name.removeprefix("ref-"))) is None:
            answer(404, {"status": "unknown"})
        elif what == "cancel":
            self._cancel(work, answer)
        else:
            answer(200, work.said())

    def _cancel(self, work: Work, answer: Answering) -> None:
        if work.state != "running":
            answer(409, work.said())
        elif self._world.random.random() < 0.5:
            self._end(work, "cancelled")
            answer(200, work.said())
        else:  # it takes its time, and may be done before
            self._world.scheduler.at(self._world.random.uniform(0, 6), lambda: self._end(work, "cancelled"))
            answer(202, work.said())

    def executions(self, job: str) -> int:
        return sum(work.executions for work in self.works.values() if work.job == job)

    def running(self, account: str) -> list[Work]:
        return [work for work in self.works.values() if work.account == account and work.state == "running"]

    def _submit(self, key: str, account: str, kind_name: str, answer: Answering) -> None:
        world = self._world
        kind: Kind = world.kinds[kind_name]
        self.received[key] = self.received.get(key, 0) + 1
        world.scheduler.say("provider", f"receives {world.short(key)} for {account}")
        world.checks.received(key)
        known = self.works.get(key)
        # What stands before it refuses repeats too, and knows nothing of keys.
        for name, status in (("busy", 429), ("unavailable", 503), ("rejected", 422)):
            if self._hits(name):
                answer(status, {"status": "refused"})
                return
        if known is not None and kind.deduplicates:
            self._again(known, answer)
            return
        # What fails before it begins looks like what fails after.
        if self._hits("error") and world.random.random() < 0.5:
            answer(500, {"status": "broken"})
            return
        self._begin(key, account, kind, answer, known)

    def _begin(self, key: str, account: str, kind: Kind, answer: Answering, known: Work | None) -> None:
        world = self._world
        work = Work(key, account, kind, world.random.randint(1, 9))
        if known is not None:
            work.executions += known.executions
        self.works[key] = work
        world.scheduler.say("provider", f"executes {world.short(key)}")
        world.checks.executes(work)
        longest = kind.max_runtime
        seconds = 0.8 if world.plan.alike else world.random.uniform(0.05, 2)
        if world.random.random() < world.plan.long:
            seconds = world.random.choice([world.random.uniform(2, longest), longest])
        ends = "failed" if self._hits("fails") else "done"
        world.scheduler.at(seconds, lambda: self._end(work, ends))
        if kind.mode == "poll":
            answer(202, work.said())
        elif self._hits("gateway"):
            world.scheduler.at(world.random.uniform(0, seconds), lambda: answer(world.random.choice([502, 504]), {}))
        elif self._hits("error"):
            world.scheduler.at(seconds, lambda: answer(500, {"status": "broken"}))
        else:
            work.waiting.append(answer)

    def _again(self, work: Work, answer: Answering) -> None:
        """The same key comes once more: the work is the same."""
        if work.kind.mode == "poll" or work.state != "running":
            answer(200, work.said())
        else:
            work.waiting.append(answer)

    def _end(self, work: Work, state: str) -> None:
        if work.state == "running" and self.works.get(work.key) is work:
            work.state = state
            self._world.scheduler.say(
                "provider", f"{work.key.rpartition('.')[2]} of {self._world.short(work.key)} is {state}"
            )
            for answer in work.waiting:
                answer(200, work.said())

    def _hits(self, name: str) -> bool:
        return bool(self._world.random.random() < getattr(self._world.plan, name))
