"""What can happen to Berth's own processes: killed, stopped and woken too late, restarted, doubled, with a wrong clock."""

import signal
import time
from functools import partial
from pathlib import Path
from typing import Final

from tests.chaos.experiments import Experiment
from tests.chaos.faults_of_servers import empty_redis
from tests.chaos.world import LEASE_SECONDS, WEB, WORKERS, World
from tests.whole.running import wait_for

ZOMBIE_SECONDS: Final = LEASE_SECONDS + 5.0
BESIDE_SECONDS: Final = 8.0  # how long others run beside the usual processes
BACK_SECONDS: Final = 40.0
SHIFTED: Final = Path(__file__).parent / "shifted"  # its sitecustomize shifts the clock of a Python process
SHIFTS_SECONDS: Final = {"two hours ahead": 7200, "two hours behind": -7200}
ROLES: Final = (*(f"web/{role}" for role in WEB), *(f"workers/{role}" for role in WORKERS))


def kill(world: World, *, roles: tuple[str, ...]) -> None:
    """All at once; `up` starts them again."""
    for role in roles:
        world.send(role, signal.SIGKILL)


def kill_each_second(world: World, *, role: str) -> None:
    for _ in range(4):
        world.send(role, signal.SIGKILL)
        time.sleep(1)


def awake_too_late(world: World, *, role: str, lasts: float = ZOMBIE_SECONDS) -> None:
    """Others take over what it held; then it goes on as if nothing had happened."""
    world.send(role, signal.SIGSTOP)
    time.sleep(lasts)
    world.calm()


def empty_redis_and_kill(world: World) -> None:
    world.send("workers/worker-upstream", signal.SIGKILL)
    empty_redis(world)


def roll(world: World) -> None:
    """Each process in turn is asked to end, and the next only when it is back."""
    for role in sorted(world.pids()):
        if not role.startswith("servers/"):
            before = world.send(role, signal.SIGTERM)
            wait_for(lambda role=role, before=before: world.pids().get(role, before) != before, BACK_SECONDS)  # type: ignore[misc]


def double_beats(world: World) -> None:
    """A second one beside the first."""
    world.start("beats", ("beat",))
    time.sleep(BESIDE_SECONDS)
    world.stop_group("beats")


def shift_clock(world: World, *, name: str, seconds: int) -> None:
    """One more group of workers, whose clock is wrong, works beside the others."""
    world.start(name, WORKERS, PYTHONPATH=str(SHIFTED), CLOCK_SHIFT_SECONDS=str(seconds))
    time.sleep(BESIDE_SECONDS)
    world.stop_group(name)


EXPERIMENTS: Final = [
    *(Experiment(f"{role}: killed", partial(kill, roles=(role,)), spares_others=True) for role in ROLES),
    Experiment("all workers killed at once", partial(kill, roles=ROLES[len(WEB) :]), spares_others=True),
    Experiment("everything killed at once", partial(kill, roles=ROLES)),
    *(
        Experiment(f"{role}: killed each second", partial(kill_each_second, role=role))
        for role in ("web/web", "workers/worker-upstream")
    ),
    *(
        Experiment(f"{role}: stopped for longer than its lease", partial(awake_too_late, role=role), spares_others=True)
        for role in ROLES
    ),
    Experiment("Redis emptied while the upstream worker is killed", empty_redis_and_kill),
    Experiment("all processes restarted one by one", roll),
    Experiment("two beats", double_beats),
    *(
        Experiment(f"workers whose clock is {what}", partial(shift_clock, name=what.replace(" ", "-"), seconds=seconds))
        for what, seconds in SHIFTS_SECONDS.items()
    ),
]
