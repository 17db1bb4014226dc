"""Running a race: threads and connections of their own, let go by a barrier, again and again in one world."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import connection

from tests.db import RACE_SECONDS

JITTER_SECONDS = 0.002  # either way
FIRST_STEP_SECONDS, LAST_STEP_SECONDS, LARGEST_STEP_SECONDS = 0.002, 0.000_2, 0.02
LONGEST_START_SECONDS = 0.3
LEAST_SHARE = 0.05  # of the rounds that each side has to win, or it was no race


class Kind(Protocol):
    """One kind of race, in a world of its own that all its rounds share."""

    name: str
    sides: dict[str, Callable[[], Any]]  # what each of them does in a round, on a thread of its own

    def ready(self, dice: random.Random) -> None:
        """Walks a new job to where they meet."""

    def judge(self, answers: dict[str, Any]) -> str:
        """Asserts what must hold after the race, ends the job, and says who won."""


@dataclass(frozen=True)
class Tally:
    """How a race went: rounds won by side, and the whole of it in seconds."""

    name: str
    won: Counter[str]
    seconds: float

    @property
    def rounds(self) -> int:
        return self.won.total()

    def idle(self) -> list[str]:
        """Sides that won too seldom for a race."""
        return [side for side, wins in self.won.items() if wins < max(1, int(self.rounds * LEAST_SHARE))]


class Starts:
    """When each side starts after the barrier: whoever won is held back a little more the next time, so that they come
    to meet whatever their way there costs; dice move each of them by up to JITTER_SECONDS either way.
    """

    def __init__(self, sides: list[str], dice: random.Random) -> None:
        self._held = dict.fromkeys(sides, 0.0)
        self._step, self._last, self._dice = FIRST_STEP_SECONDS, "", dice

    def draw(self) -> dict[str, float]:
        """Seconds after the barrier, by side."""
        drawn = {side: held + self._dice.uniform(-1, 1) * JITTER_SECONDS for side, held in self._held.items()}
        first = min(drawn.values())
        return {side: min(seconds - first, LONGEST_START_SECONDS) for side, seconds in drawn.items()}

    def won(self, winner: str) -> None:
        """Smaller steps once the winners change, larger ones while they do not: on a busy machine they may be far apart."""
        if self._last:
            step = self._step * 1.5 if winner == self._last else self._step / 2
            self._step = min(max(step, LAST_STEP_SECONDS), LARGEST_STEP_SECONDS)
        self._last = winner
        for side in self._held:
            share = self._step if side == winner else -self._step / (len(self._held) - 1)
            self._held[side] += share


def run(kind: Kind, rounds: int, seed: int) -> Tally:
    """So many rounds; raises AssertionError, with the round and the seed, where something did not hold."""
    dice = random.Random(f"{kind.name} {seed}")
    starts, won, begun = Starts(list(kind.sides), dice), Counter(dict.fromkeys(kind.sides, 0)), time.monotonic()
    with ThreadPoolExecutor(len(kind.sides)) as threads:
        try:
            for number in range(rounds):
                winner = _round(threads, kind, starts, dice, f"{kind.name}: round {number} of seed {seed}")
                won[winner] += 1
                starts.won(winner)
        finally:
            _meet(threads, dict.fromkeys(kind.sides, _leave), dict.fromkeys(kind.sides, 0.0))
    return Tally(kind.name, won, time.monotonic() - begun)


def _round(threads: ThreadPoolExecutor, kind: Kind, starts: Starts, dice: random.Random, name: str) -> str:
    """Who won."""
    kind.ready(dice)
    answers = _meet(threads, kind.sides, starts.draw())
    try:
        return kind.judge(answers)
    except AssertionError as error:
        error.add_note(f"{name}; the answers were {answers}")
        raise


def _meet(threads: ThreadPoolExecutor, sides: dict[str, Callable[[], Any]], starts: dict[str, float]) -> dict[str, Any]:
    """Each on a thread of its own, and so on a connection of its own; what they answered, by side."""
    barrier = threading.Barrier(len(sides))

    def come(verb: Callable[[], Any], seconds: float) -> Any:
        barrier.wait(RACE_SECONDS)
        time.sleep(seconds)
        return verb()

    coming = {side: threads.submit(come, verb, starts[side]) for side, verb in sides.items()}
    return {side: future.result(RACE_SECONDS) for side, future in coming.items()}


def _leave() -> None:
    """Gives the connection of this thread back."""
    connection.close()
