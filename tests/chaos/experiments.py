"""An experiment: what is done to a world, and how one is judged. Families of them are lists; `all_of` puts them in an order."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from tests.chaos.world import World


@dataclass(frozen=True)
class Experiment:
    """`act` does something to the world and returns when that is over; what it leaves behind, `World.calm` takes away.

    Where it concerns one group of workers alone, those of others let its sessions go meanwhile: `spares_others`.
    """

    name: str
    act: Callable[[World], None]
    spares_others: bool = False

    def run(self, world: World) -> None:
        self.act(world)


def in_turns(families: Mapping[str, Sequence[Experiment]], seed: str) -> Iterator[Experiment]:
    """All of them, in an order that the seed draws: of each family one in turn, so that a short run tries each kind."""
    dice = random.Random(seed)
    shuffled = [dice.sample(family, len(family)) for family in families.values()]
    dice.shuffle(shuffled)
    return (each for each in chain.from_iterable(zip_longest(*shuffled)) if each is not None)
