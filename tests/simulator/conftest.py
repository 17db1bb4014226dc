"""A real simulator process, and a fresh account of it for each test."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


@dataclass
class Simulator:
    process: subprocess.Popen[str]
    url: str
    client: httpx.Client
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16))

    def control(self, path: str, body: Any = None) -> Any:
        response = self.client.post(f"/control/{path}", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def report(self, **query: int) -> Any:
        return self.client.get("/report", params=query).json()

    def book(self) -> Any:
        return self.client.get("/book").json()

    def stop(self) -> int:
        self.threads.shutdown()
        self.client.close()
        self.process.terminate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(5)


@dataclass
class Caller:
    """One account's program: speaks with its credential, in the foreground or on a thread (`later`)."""

    simulator: Simulator
    name: str

    def call(self, method: str, path: str, body: Any = None, key: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer sim-{self.name}", **({"Idempotency-Key": key} if key else {})}
        return self.simulator.client.request(method, path, json=body, headers=headers, **options)

    def run(self, body: Any = None, key: str = "", **options: Any) -> httpx.Response:
        return self.call("POST", "/run", {} if body is None else body, key, **options)

    def later(self, body: Any = None, key: str = "") -> Future[httpx.Response]:
        return self.simulator.threads.submit(self.run, body, key)

    def fault(self, fault: dict[str, Any], **rule: Any) -> None:
        self.simulator.control("faults", {"account": self.name, "fault": fault, **rule})

    def state(self) -> Any:
        return next(line for line in self.simulator.client.get("/control/accounts").json() if line["name"] == self.name)

    def wait_until(self, **wanted: Any) -> None:
        """Until the account's line shows these values, at most five seconds."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if wanted.items() <= self.state().items():
                return
            time.sleep(0.005)
        raise AssertionError(f"{self.state()} never became {wanted}")


def start_simulator(*options: str) -> Simulator:
    command = [sys.executable, "-m", "simulator", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("simulator ready http://127.0.0.1:"), line
    url = line.split()[-1]
    # Plain http: spare each client the loading of certificates.
    client = httpx.Client(base_url=url, timeout=5, verify=False, trust_env=False)  # noqa: S501
    return Simulator(process, url, client)


@pytest.fixture(scope="session")
def shared_simulator() -> Iterator[Simulator]:
    simulator = start_simulator("--latency", "20ms")
    yield simulator
    simulator.stop()


@pytest.fixture
def simulator(shared_simulator: Simulator) -> Iterator[Simulator]:
    shared_simulator.control("mark")
    yield shared_simulator
    shared_simulator.client.delete("/control/faults")


@pytest.fixture
def own_simulator() -> Iterator[Callable[..., Simulator]]:
    started: list[Simulator] = []

    def start(*options: str) -> Simulator:
        started.append(start_simulator(*options))
        return started[-1]

    yield start
    for simulator in started:
        if simulator.process.poll() is None:
            simulator.stop()


@pytest.fixture
def declare(simulator: Simulator) -> Iterator[Callable[..., Caller]]:
    names: list[str] = []

    def declared(**account: Any) -> Caller:
        name = f"test-{next(_numbers)}"
        names.append(name)
        simulator.control("accounts", [{"name": name, "credential": f"sim-{name}", "sessions": 1, **account}])
        return Caller(simulator, name)

    yield declared
    for name in names:
        simulator.client.delete(f"/control/accounts/{name}")
