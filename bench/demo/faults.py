"""Faults for the demo: Redis emptied each second, one process killed in the middle of the spike, or many, by a seed."""

import argparse
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import redis
from rich.console import Console

from bench.demo.world import World

KILL_AFTER_SECONDS = 4.0
LOOK_SECONDS = 0.2
HELP = "flushall (Redis emptied each second), kill:ROLE, or kills:N (kill -9 of random roles, spread over the run)"


@dataclass(frozen=True)
class Kill:
    """One kill -9: whom, when (seconds since the spike began), and how many executions the upstream had begun."""

    role: str
    pid: int
    second: float
    executions: int


class Faults:
    """Injects while inside; `kills` says what was done. What went wrong with a fault is raised at the end."""

    def __init__(self, faults: list[str], world: World, console: Console, seed: int) -> None:
        self.kills: list[Kill] = []
        self.wanted = sum(_number(fault) for fault in faults)
        self._faults, self._world, self._console = faults, world, console
        self._dice = random.Random(seed)
        self._over = threading.Event()
        self._begun = time.monotonic()

    @contextmanager
    def injected(self) -> Iterator[None]:
        """The body runs while the faults happen."""
        with ThreadPoolExecutor(max(1, len(self._faults)), thread_name_prefix="fault") as threads:
            running = [threads.submit(self._inject, fault) for fault in self._faults]
            try:
                yield
            finally:
                self._over.set()
            for each in running:
                each.result()

    def _inject(self, fault: str) -> None:
        if fault == "flushall":
            self._empty_redis()
        elif fault.startswith("kills:"):
            self._kill_many(_number(fault))
        elif not self._over.wait(KILL_AFTER_SECONDS):
            self._kill(fault.removeprefix("kill:"))

    def _empty_redis(self) -> None:
        client = redis.Redis.from_url(self._world.run["redis_url"])
        while not self._over.wait(1.0):
            # On a server of the operator's own, other databases are not ours to empty.
            client.flushdb()

    def _kill_many(self, number: int) -> None:
        """One kill in each of `number` equal parts of the work, at a random place of it, so that all of them happen."""
        roles = sorted(process["role"] for process in self._world.refresh()["processes"])
        places = [(part + self._dice.random()) / number * self._world.scenario.jobs for part in range(number)]
        plan = [(place, self._dice.choice(roles), self._dice.uniform(0, LOOK_SECONDS)) for place in places]
        for place, role, pause in plan:
            while self._executions() < place:
                if self._over.wait(LOOK_SECONDS):
                    return
            self._over.wait(pause)
            self._kill(role)

    def _kill(self, role: str) -> None:
        """Waits for the role while it is being started again: what was meant to be killed is killed."""
        dead = {kill.pid for kill in self.kills}
        while not self._over.is_set():
            listed = {process["role"]: process["pid"] for process in self._world.refresh()["processes"]}
            pid = listed.get(role)
            if pid is not None and pid not in dead:
                executions = self._executions()
                os.kill(pid, signal.SIGKILL)
                self.kills.append(Kill(role, pid, round(time.monotonic() - self._begun, 1), executions))
                self._console.print(f"kill -9 of {role} (pid {pid}) after {executions} executions", highlight=False)
                return
            self._over.wait(LOOK_SECONDS)

    def _executions(self) -> int:
        return int(self._world.simulator_report()["executions"])


def known(fault: str) -> str:
    """`fault`, when it can be injected. Raises ArgumentTypeError."""
    if fault == "flushall" or (fault.startswith("kill:") and fault != "kill:") or _number(fault) > 0:
        return fault
    raise argparse.ArgumentTypeError(f"no such fault: {fault}; there are {HELP}")


def _number(fault: str) -> int:
    """How many kills a fault stands for."""
    name, _, digits = fault.partition(":")
    if name == "kill":
        return 1
    return int(digits) if name == "kills" and digits.isdigit() else 0
