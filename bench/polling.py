"""`python -m bench.polling`: thousands of tasks in flight at an upstream that is asked, on one worker; some hang when asked.

For each task that does not hang: how long after its end at the upstream (by the fake upstream's own book) the job had
ended here (by the database). Beside it the most memory that the worker of the calls had. Both clocks are this machine's.
"""

import argparse
import http.client
import json
import random
import sys
import threading
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
from rich.console import Console

from bench.demo.scenario import Scenario, Work, with_credentials
from bench.demo.world import World

MOST_P95_PERIODS = 2.0
MOST_MEGABYTES = 400
CLIENTS = 16
PATIENCE_SECONDS = 300
_SUBMIT = {
    "path": "'/tasks'",
    "headers": {"Idempotency-Key": "dispatch_key"},
    "idempotent": True,
    "reference": "response.body.id",
}
_SAYS = {
    "running": "response.body.status in ['queued', 'running']",
    "success": "response.body.status == 'done'",
    "failed": "response.body.status == 'failed'",
    "units": "response.body.units",
}


def main() -> int:
    options = _options()
    console = Console()
    world = World(Path(options.home).absolute(), 8000, _scenario(options), "1s")
    try:
        world.start(console)
        found = _measure(world, options, console)
    finally:
        world.stop()
    quick = found["p95_periods"] <= MOST_P95_PERIODS
    found["ok"] = quick and found["worker_megabytes"] <= MOST_MEGABYTES and found["most_in_flight"] >= found["tasks"]
    console.print_json(json.dumps(found))
    return 0 if found["ok"] else 1


def _scenario(options: argparse.Namespace) -> Scenario:
    sessions = -(-options.tasks // options.accounts)
    poll = {"path": "'/tasks/' + reference", "every": f"{options.every}s", **_SAYS}
    tenants = {f"tenant-{n:02}": {"credits": 1_000_000} for n in range(1, 11)}
    config: dict[str, Any] = {
        "pools": {
            "polled": {
                "window": 100,
                "upstream": {},
                "accounts": {f"acct-{n:03}": {"sessions": sessions} for n in range(1, options.accounts + 1)},
            }
        },
        "job_types": {
            "task": {
                "pool": "polled",
                "price": "1",
                "max_runtime": "10m",
                "upstream": {"mode": "poll", "submit": _SUBMIT, "poll": poll},
            }
        },
        "tenants": tenants,
    }
    return with_credentials(config, {name: [Work("task", {}, options.tasks // len(tenants))] for name in tenants})


def _measure(world: World, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    submitted = _submit(world, options)
    console.print(f"{submitted} tasks submitted; {options.hanging} of them hang when asked.", highlight=False)
    memory, most_running, end = 0.0, 0, time.monotonic() + PATIENCE_SECONDS
    with psycopg2.connect(world.run["database_url"]) as connection:
        connection.autocommit = True
        while time.monotonic() < end:
            memory = max(memory, _megabytes(world))
            running, ended = _standing(connection)
            most_running = max(most_running, running)
            if ended >= submitted - options.hanging:
                break
            time.sleep(0.5)
        finished = _finished(connection)
    lags = sorted(
        finished[line["reference"].removeprefix("job.")] - line["end"]
        for line in _book(world, submitted)
        if line["end"] and line["reference"].removeprefix("job.") in finished
    )
    return {
        "tasks": submitted,
        "hanging": options.hanging,
        "most_in_flight": most_running,
        "measured": len(lags),
        "every_seconds": options.every,
        **{f"p{p}_seconds": round(lags[min(len(lags) - 1, len(lags) * p // 100)], 2) for p in (50, 95, 99)},
        "p95_periods": round(lags[len(lags) * 95 // 100] / options.every, 2),
        "worker_megabytes": round(memory),
        "audit_clean": all(not rule["count"] for rule in world.audit()["rules"].values()),
    }


def _submit(world: World, options: argparse.Namespace) -> int:
    """Hanging tasks are spread over all; each client has connections and keys of its own."""
    dice, numbers = random.Random(options.seed), count()
    hanging = set(dice.sample(range(options.tasks), options.hanging))
    keys = list(world.issue_keys().values())
    bodies = [
        json.dumps(
            {"type": "task", "payload": {"seconds": dice.uniform(options.least, options.most), **_sim(n, hanging)}}
        )
        for n in range(options.tasks)
    ]
    accepted: list[str] = []

    def client() -> None:
        connection = http.client.HTTPConnection(urlsplit(world.web_url).netloc, timeout=60)
        while (number := next(numbers)) < options.tasks:
            key = keys[number % len(keys)]
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/jobs", bodies[number], headers)
            answer = json.loads(connection.getresponse().read())
            accepted.append(answer["id"])

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(accepted)


def _sim(number: int, hanging: set[int]) -> dict[str, Any]:
    return {"sim": {"hang_poll": "30s"}} if number in hanging else {}


def _standing(connection: Any) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FILTER (WHERE state = 'processing'), count(finished_at) FROM jobs_job")
        running, ended = cursor.fetchone()
    return int(running), int(ended)


def _finished(connection: Any) -> dict[str, float]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id::text, extract(epoch FROM finished_at)::float8 FROM jobs_job WHERE state = 'completed'"
        )
        return dict(cursor.fetchall())


def _book(world: World, most: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{world.simulator_url}/book?limit={2 * most}", timeout=60) as answer:
        lines: list[dict[str, Any]] = json.loads(answer.read())
    return lines


def _megabytes(world: World) -> float:
    """Resident memory of the worker that makes the calls."""
    pids = [each["pid"] for each in world.refresh()["processes"] if each["role"] == "worker-upstream"]
    status = Path(f"/proc/{pids[0]}/status").read_text() if pids else ""
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(kilobytes[0]) / 1024 if kilobytes else 0.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.polling", description=__doc__)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--hanging", type=int, default=100, help="of them, each poll of which hangs for 30 s")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two polls")
    parser.add_argument("--accounts", type=int, default=20)
    parser.add_argument("--least", type=float, default=90.0, help="seconds a task takes, at least")
    parser.add_argument("--most", type=float, default=120.0)
    parser.add_argument("--home", default="var/polling")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
