"""A running `manage.py up` in a folder of its own, and the programs around it: simulators and clients."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.whole.commands import PROJECT, Commands

START_SECONDS = 240
WAIT_SECONDS = 60


class Running:
    """Berth, as `up` started it. `apply` configures it, `client` speaks for a tenant."""

    def __init__(self, home: Path, *arguments: str, project: Path = PROJECT, **variables: str) -> None:
        self.home, self.project = home, project
        taken = {"DATABASE_URL", "REDIS_URL", "BROKER_URL", "BERTH_HOME", "SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS"}
        self.environment = {name: value for name, value in os.environ.items() if name not in taken}
        # Short leases, so that a lost worker is noticed within a test's patience.
        self.environment |= {"DJANGO_SETTINGS_MODULE": "broker_project.settings", "LEASE_SECONDS": "3", **variables}
        self._commands = Commands(project)
        (home / "run.json").unlink(missing_ok=True)  # an `up` that was killed leaves one behind
        self.log = (home / "up.log").open("wb")
        command = [sys.executable, "manage.py", "up", "--home", str(home), "--port", "8000", *arguments]
        self.process = subprocess.Popen(
            command, cwd=self.project, env=self.environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        try:
            wait_for(lambda: (home / "run.json").exists() or self.process.poll() is not None, START_SECONDS)
            assert self.process.poll() is None, (home / "up.log").read_text()
        except BaseException:
            self.process.kill()  # and with it all that it started: nobody else knows of it yet
            raise

    @property
    def run(self) -> dict[str, Any]:
        """`run.json` as it stands."""
        return dict(json.loads((self.home / "run.json").read_text()))

    def pid(self, role: str) -> int:
        """The process of a role, now; 0 while it is being restarted."""
        return next((int(process["pid"]) for process in self.run["processes"] if process["role"] == role), 0)

    def pids(self) -> dict[str, int]:
        """The processes, by role."""
        return {process["role"]: int(process["pid"]) for process in self.run["processes"]}

    @property
    def said(self) -> str:
        """What `up` told whoever started it."""
        return (self.home / "up.log").read_text()

    def answering_workers(self) -> set[str]:
        """The workers that answer a message now, by queue."""
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "broker_project",
            "inspect",
            "ping",
            "--json",
            "--timeout",
            "3",
        ]
        environment = {**self.environment, **self.run["env"]}
        asked = subprocess.run(command, cwd=self.project, env=environment, capture_output=True, text=True, check=False)
        return {name.partition("@")[0] for name in json.loads(asked.stdout)} if asked.returncode == 0 else set()

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a `manage.py` command against this installation."""
        return self._commands.run(arguments, {**self.environment, **self.run["env"]}, variables)

    def apply(self, config: dict[str, Any], **variables: str) -> None:
        """Applies a configuration as an operator would, from a file."""
        path = self.home / "broker.yaml"
        path.write_text(yaml.safe_dump(config))
        done = self.manage("apply", str(path), **variables)
        assert done.returncode == 0, done.stdout + done.stderr

    def client(self, tenant: str) -> httpx.Client:
        """A tenant's program, with a key of its own."""
        key = self.manage("issue_key", tenant).stdout.strip().splitlines()[-1]
        limits = httpx.Limits(max_connections=32)
        return httpx.Client(
            base_url=self.run["web_url"], headers={"Authorization": f"Bearer {key}"}, timeout=30, limits=limits
        )

    def audit_breaches(self) -> dict[str, Any]:
        """What the audit finds now, by rule."""
        rules = json.loads(self.manage("audit", "--json").stdout)["rules"]
        return {name: rule["rows"] for name, rule in rules.items() if rule["count"]}

    def kill(self) -> None:
        """As a power cut would end `up` and all that it started."""
        for pid in (self.process.pid, *self.pids().values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()
        self._commands.stop()

    def stop(self) -> int:
        """As Ctrl-C would; its exit code."""
        self._commands.stop()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        return code


@contextmanager
def simulator(*arguments: str) -> Iterator[str]:
    """A fake upstream of its own; its address."""
    command = [sys.executable, "-m", "simulator", "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def wait_for(holds: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """Asks until the answer is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (answer := holds()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)
    return answer


def ended(client: httpx.Client, ids: set[str]) -> list[dict[str, Any]] | None:
    """These jobs, once all of them are terminal."""
    jobs: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = client.get("/v1/jobs", params={"limit": 100, **({"cursor": cursor} if cursor else {})}).json()
        jobs += [job for job in page["data"] if job["id"] in ids]
        if not (cursor := page["next_cursor"] or ""):
            break
    done = all(job["state"] in {"completed", "failed", "cancelled"} for job in jobs)
    return jobs if done and len(jobs) == len(ids) else None
