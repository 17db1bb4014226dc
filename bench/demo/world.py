"""The processes of the demo: the simulator and `manage.py up`, and the commands it needs from them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.demo import servers
from bench.demo.scenario import Scenario

PROJECT = Path(__file__).resolve().parents[2]
START_SECONDS = 180
STOP_SECONDS = 60


class WorldFailed(Exception):
    """Something the demo needs did not start or did not answer."""


class World:
    """Everything the spike talks to. `stop` leaves nothing behind."""

    def __init__(self, home: Path, port: int, scenario: Scenario, latency: str) -> None:
        self.home, self.port, self.scenario, self.latency = home, port, scenario, latency
        self.simulator_url = self.web_url = ""
        self.run: dict[str, Any] = {}
        self.servers: dict[str, str] = {}
        self._simulator: subprocess.Popen[str] | None = None
        self._up: subprocess.Popen[bytes] | None = None

    def start(self, console: Console) -> None:
        """Starts the simulator with the scenario's accounts, then all of Berth; returns when both answer."""
        self.home.mkdir(parents=True, exist_ok=True)
        accounts = self.home / "demo-accounts.json"
        accounts.write_text(json.dumps(self.scenario.accounts))
        command = [sys.executable, "-m", "simulator", "--port", "0", "--latency", self.latency]
        self._simulator = subprocess.Popen(
            [*command, "--accounts-file", str(accounts)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        assert self._simulator.stdout is not None  # noqa: S101  it was asked for above
        self.simulator_url = self._simulator.stdout.readline().split()[-1]
        console.print(f"The simulated upstream answers at {self.simulator_url}.", highlight=False)
        arguments = ["up", "--home", str(self.home), "--port", str(self.port)]
        with (self.home / "demo-up.log").open("wb") as log:
            self._up = subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=PROJECT,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with console.status("Berth starts: database, Valkey, web, live, workers, beat, Flower"):
            self._wait_for_run_file()
            self._refuse_to_change_what_is_not_ours()
            self.manage("apply", str(self.scenario.written_for(self.simulator_url, self.home / "demo.yaml")))
            self.servers = servers.described(self.run)
        self._say_where(console)

    def _refuse_to_change_what_is_not_ours(self) -> None:
        """A demo on an operator's database would put the simulator in the place of an upstream that works."""
        config = self.scenario.config
        found = servers.foreign_pools(self.run["database_url"], list(config["pools"]), list(config["job_types"]))
        if found:
            raise WorldFailed(
                f"The demo would send the jobs of {', '.join(found)} to its simulator. "
                'Give it data of its own: ARGS="--home var/demo", or another DATABASE_URL.'
            )

    def _say_where(self, console: Console) -> None:
        admin = self.run["admin"]
        login = f"{admin['user']} / {admin['password']}"
        # `prepare` says so where the database was made with another home than this one.
        earlier = "keeps the password" in (self.home / "demo-up.log").read_text()
        console.print(
            f"Berth runs. API documentation: {self.web_url}/docs · admin: {self.web_url}/admin/ · "
            f"Flower: {self.run['flower_url']} · login of {'Flower' if earlier else 'both'}: {login}",
            highlight=False,
        )
        if earlier:
            console.print("The admin keeps the login that your database has already.")
        console.print(
            f"Postgres: {self.servers['postgres']} · Redis: {self.servers['redis']} · broker: {self.servers['broker']}",
            highlight=False,
        )

    def alive(self) -> bool:
        """Whether `up` still runs."""
        return self._up is not None and self._up.poll() is None

    def refresh(self) -> dict[str, Any]:
        """`run.json` as it stands: pids change when something is restarted."""
        self.run = json.loads((self.home / "run.json").read_text())
        return self.run

    def issue_keys(self) -> dict[str, str]:
        """A new API key for every tenant of the scenario."""
        names = list(self.scenario.tenants)
        lines = self.manage("issue_key", *names).strip().splitlines()
        if len(names) == 1:
            return {names[0]: lines[-1].strip()}
        return dict(line.split() for line in lines[-len(names) :])

    def audit(self) -> dict[str, Any]:
        """What `manage.py audit --json` says; it exits 1 on a breach, which is an answer too."""
        result: dict[str, Any] = json.loads(self.manage("audit", "--json", may_fail=True))
        return result

    def simulator_report(self) -> dict[str, Any]:
        """The simulator's own book."""
        with urllib.request.urlopen(f"{self.simulator_url}/report", timeout=10) as answer:
            report: dict[str, Any] = json.loads(answer.read())
            return report

    def manage(self, *arguments: str, may_fail: bool = False) -> str:
        """The output of a `manage.py` command of this installation."""
        environment = {**self._environment(), **self.run["env"]}
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and not may_fail:
            raise WorldFailed(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def stop(self) -> None:
        """Ends `up` (warm, then by force) and the simulator."""
        if self._up is not None and self._up.poll() is None:
            self._up.send_signal(signal.SIGTERM)
            try:
                self._up.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._up.kill()
        if self._simulator is not None:
            self._simulator.terminate()
            self._simulator.wait(10)

    def _wait_for_run_file(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not (self.home / "run.json").exists():
            if not self.alive():
                raise WorldFailed("Berth did not start:\n" + (self.home / "demo-up.log").read_text()[-3000:])
            if time.monotonic() > end:
                raise WorldFailed(f"Berth did not start within {START_SECONDS} s; see {self.home}/logs.")
            time.sleep(0.1)
        self.web_url = self.refresh()["web_url"]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DJANGO_SETTINGS_MODULE": "broker_project.settings", **self.scenario.environment}
