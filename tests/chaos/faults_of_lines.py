"""What can happen to the lines between two parts: each kind of fault, on each line where it makes sense."""

import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from tests.chaos.experiments import Experiment
from tests.chaos.world import World

# By what they are between: the names of the proxies.
LINES: Final = {
    "client and web": ("client-web",),
    "upstream and web": ("upstream-web",),
    "web and Postgres": ("web-postgres",),
    "web and Redis": ("web-redis",),
    "workers and Postgres": ("workers-postgres",),
    "workers and Redis": ("workers-redis",),
    "workers and upstreams": ("workers-upstream", "workers-strict"),
}
_OF_ONE_GROUP: Final = ("workers and Postgres", "workers and Redis")  # others have lines of their own
_BOTH: Final = ("there", "back")
NONE: Final[Mapping[str, float]] = MappingProxyType({})
# What is done, for how many seconds, in which directions, with which measures.
_KINDS: Final[dict[str, tuple[str, float, tuple[str, ...], dict[str, float]]]] = {
    "cut": ("cut", 3.0, _BOTH, {}),
    "slow by 200 ms": ("delay", 5.0, _BOTH, {"seconds": 0.2}),
    "a black hole": ("hole", 5.0, _BOTH, {}),
    "deaf in one direction": ("hole", 4.0, ("back",), {}),
    "stalled": ("stall", 4.0, _BOTH, {}),
    "reset": ("reset", 0.5, _BOTH, {}),
    "dripping": ("drip", 4.0, _BOTH, {"bytes": 64, "seconds": 0.01}),
}
# After how many bytes an answer is cut: at its first, and somewhere in it. Accepted, and nobody was told.
_CUT_AFTER: Final = {
    "client and web": (0, 60),
    "upstream and web": (0,),
    "web and Postgres": (4000,),
    "web and Redis": (50,),
    "workers and Postgres": (4000,),
    "workers and Redis": (200,),
    "workers and upstreams": (0, 120),
}
_CUT_SECONDS: Final = 4.0


def fail(
    world: World,
    *,
    names: tuple[str, ...],
    kind: str,
    lasts: float,
    directions: tuple[str, ...] = _BOTH,
    measures: Mapping[str, float] = NONE,
) -> None:
    """These lines fail at once, for so long."""
    for name in names:
        world.proxies[name].fail(kind, *directions, **measures)
    time.sleep(lasts)
    for name in names:
        world.proxies[name].heal()


EXPERIMENTS: Final = [
    *(
        Experiment(
            f"{place}: {what}",
            partial(fail, names=names, kind=kind, lasts=lasts, directions=directions, measures=measures),
            place in _OF_ONE_GROUP,
        )
        for place, names in LINES.items()
        for what, (kind, lasts, directions, measures) in _KINDS.items()
    ),
    *(
        Experiment(
            f"{place}: cut after {count} bytes of an answer",
            partial(
                fail,
                names=LINES[place],
                kind="after",
                lasts=_CUT_SECONDS,
                directions=("back",),
                measures={"bytes": count},
            ),
            place in _OF_ONE_GROUP,
        )
        for place, counts in _CUT_AFTER.items()
        for count in counts
    ),
]
