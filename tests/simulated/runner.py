"""Runs seeds one after the other in one database, and asks the audit after each batch of them."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from broker_project.audit import RULES
from tests.simulated import clock, database
from tests.simulated.checks import Breach
from tests.simulated.crew import Crew
from tests.simulated.plan import of_seed
from tests.simulated.world import World

AUDIT_EVERY = 25  # seeds
EMPTY_EVERY = 100


@dataclass
class Found:
    """A seed in which something does not hold."""

    seed: int
    what: str
    trace: list[str] = field(repr=False)


class Runner:
    """Owns the threads and the connections. Use it as a context."""

    def __init__(self) -> None:
        database.make()
        self.connection = database.monitor()
        self.cursor: Any = self.connection.cursor()
        self.crew = Crew()
        self._since_empty = 0
        self.trace: list[str] = []
        logging.disable(logging.CRITICAL)  # the product says much of what is done to it here

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.crew.stop()
        self.connection.close()
        database.drop()
        logging.disable(logging.NOTSET)

    def run(self, seeds: Iterable[int], audit_every: int = AUDIT_EVERY) -> Iterator[Found]:
        """What does not hold, as it is found; after it the tables are emptied."""
        batch: list[int] = []
        for seed in seeds:
            batch.append(seed)
            if found := self._one(seed):
                yield found
                self.empty()
                batch = []
            elif len(batch) >= audit_every:
                yield from self._judged(batch)
                batch = []
        yield from self._judged(batch)

    def _judged(self, batch: list[int]) -> Iterator[Found]:
        """The audit after a batch; what it finds belongs to one of its seeds, which are run again by themselves."""
        self._since_empty += len(batch)
        found = self._audit(batch[-1]) if batch else None
        if found is not None:
            alone = (self.one(seed) for seed in batch)
            yield next((each for each in alone if each is not None), found)
        if found is not None or self._since_empty >= EMPTY_EVERY:
            self.empty()

    def one(self, seed: int) -> Found | None:
        """One seed in empty tables, with an audit of its own; they are empty after it."""
        self.empty()
        found = self._one(seed) or self._audit(seed)
        self.empty()
        return found

    def empty(self) -> None:
        self._since_empty = 0
        database.empty(self.cursor)

    def _one(self, seed: int) -> Found | None:
        clock.set_to(self.cursor, 0)
        world = World(of_seed(seed), self.crew, self.cursor)
        self.trace = world.scheduler.trace
        try:
            world.run()
        except Breach as breach:
            return Found(seed, str(breach), world.scheduler.trace)
        finally:
            world.stop()
        return None

    def _audit(self, seed: int) -> Found | None:
        for name, sql in RULES.items():
            self.cursor.execute(sql)
            if rows := self.cursor.fetchmany(3):
                return Found(seed, f"{name}: {rows}", list(self.trace))
        return None
