"""Faults for the demo: Redis emptied each second, or a process killed once in the middle of the spike."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from rich.console import Console

from bench.demo.world import World

KILL_AFTER_SECONDS = 4.0


@contextmanager
def injected(faults: list[str], world: World, console: Console) -> Iterator[None]:
    """While inside, `flushall` empties Redis each second; `kill:ROLE` sends SIGKILL to that role once."""
    over = threading.Event()
    threads = [threading.Thread(target=_inject, args=(fault, world, console, over)) for fault in faults]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _inject(fault: str, world: World, console: Console, over: threading.Event) -> None:
    if fault == "flushall":
        client = redis.Redis.from_url(world.run["redis_url"])
        while not over.wait(1.0):
            client.flushall()
        return
    role = fault.removeprefix("kill:")
    if over.wait(KILL_AFTER_SECONDS):
        return
    for process in world.refresh()["processes"]:
        if process["role"] == role:
            os.kill(process["pid"], signal.SIGKILL)
            console.print(f"kill -9 of {role} (pid {process['pid']})", highlight=False)
