"""A whole Berth with a proxy between every two parts, its upstreams, its tenants' programs, and what is left of it all.

The servers are one `up`, web, live and beat another, and each group of workers one of its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg2
import psycopg2.extras
import yaml

from tests import arming
from tests.chaos import declared
from tests.chaos.lines import Proxies
from tests.chaos.load import Load
from tests.whole.running import PROJECT, Running, wait_for

if TYPE_CHECKING:
    from tests.referee.evidence import Evidence

LEASE_SECONDS: Final = 3.0
SWEEP_SECONDS: Final = 1.0
LONGEST_RESTART_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 120.0
AT_ONCE: Final = 2  # groups that are started
RATE: Final = 10.0  # submits a second, under a third of what the sessions can do
WEB: Final = ("web", "live", "beat")
WORKERS: Final = ("worker-assign", "worker-transitions", "worker-upstream")
KEYS: Final = ("SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS")
NOWHERE: Final = "http://127.0.0.1:9"

_OCCUPIED = """
SELECT r.id, r.state, r.available_at, a.dispatch_key FROM pool_resource r
LEFT JOIN jobs_attempt a ON a.resource_id = r.id AND a.ended_at IS NULL
WHERE r.state <> 'available'"""
_ENDED = ("completed", "failed", "cancelled")


class World:
    """`with World(home, groups=3) as world:`. Nobody submits before `world.load.begin()`.

    `berths` are the groups of processes by name (`web`, `workers`, `workers-2`, …); `proxies` stand between them and
    their servers (`web-postgres`, `workers-2-redis`, …), between all workers and the upstreams (`workers-upstream`,
    `workers-strict`), between programs and web (`client-web`), and between upstreams and web (`upstream-web`).
    """

    def __init__(
        self, home: Path, *, groups: int = 1, seed: int = 1, rate: float = RATE, project: Path = PROJECT
    ) -> None:
        self.home, self.groups, self.seed, self.project = home, groups, seed, project
        self.crashpoints = home / "crashpoints"
        self.client_log = home / "clients.jsonl"
        self.books = [home / f"{name}.book" for name in declared.UPSTREAMS]
        self.berths: dict[str, Running] = {}
        self.simulators: dict[str, str] = {}
        self.stopped: set[int] = set()  # processes that were sent SIGSTOP
        self._rate = rate
        self._ending = ExitStack()

    def __enter__(self) -> "World":
        try:
            self._begin()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _begin(self) -> None:
        self.home.chmod(0o711)  # the database may run as another user, who must pass
        self.crashpoints.mkdir()
        self.proxies = Proxies()
        self._ending.callback(self.proxies.stop)
        for name, book in zip(declared.UPSTREAMS, self.books, strict=True):
            self.simulators[name] = self._simulator(name, book)
        self.servers = Running(self._folder("servers"), "--only", "postgres,valkey")
        self._ending.callback(self.servers.stop)
        for name in ("client-web", "upstream-web"):
            self.proxies.between(name, NOWHERE)
        # One way to the upstreams for all groups: that is what the configuration names.
        upstreams = {name: self.proxies.between(f"workers-{name}", url).url for name, url in self.simulators.items()}
        config = self.home / "broker.yaml"
        config.write_text(yaml.safe_dump(declared.config(upstreams)))
        self.web = self.start("web", WEB, "--config", str(config), **declared.credentials())
        for name in ("client-web", "upstream-web"):
            self.proxies[name].aim(self.web.run["web_url"])
        names = ["workers", *(f"workers-{number}" for number in range(2, self.groups + 1))]
        with ThreadPoolExecutor(AT_ONCE) as at_once:
            started = [at_once.submit(self.start, name, WORKERS) for name in names]
            keys = dict(line.split() for line in self._issued(declared.TENANTS))
            for each in started:
                each.result()
        self.load = Load(self.proxies["client-web"].url, keys, self.client_log, rate=self._rate, seed=self.seed)
        self._ending.callback(self.load.close)

    def start(self, name: str, roles: Sequence[str], *arguments: str, **variables: str) -> Running:
        """A group of processes, which is an `up` with a folder of its own, behind proxies to the servers."""
        settings = {
            "DATABASE_URL": self.proxies.between(f"{name}-postgres", self.servers.run["database_url"]).url,
            "REDIS_URL": self.proxies.between(f"{name}-redis", self.servers.run["redis_url"]).url,
            "PUBLIC_URL": self.proxies["upstream-web"].url,
            "CRASHPOINTS": str(self.crashpoints),
            "LEASE_SECONDS": str(LEASE_SECONDS),
            "SWEEP_SECONDS": str(SWEEP_SECONDS),
            "DRAIN_SECONDS": "5",
            "LONGEST_RESTART_SECONDS": str(LONGEST_RESTART_SECONDS),
            **{key: self.servers.run["env"][key] for key in KEYS},
        }
        only = ("--only", ",".join(roles))
        variables = {**settings, **variables}
        berth = Running(self._folder(name), *only, *arguments, project=self.project, **variables)
        self.berths[name] = berth
        self._ending.callback(self._kill, name)
        return berth

    def pids(self) -> dict[str, int]:
        """All processes of Berth, as `workers/worker-assign`; without those that are being restarted."""
        found = {**self.berths, "servers": self.servers}
        return {f"{name}/{role}": pid for name, berth in found.items() for role, pid in berth.pids().items()}

    def send(self, role: str, number: signal.Signals) -> int:
        """A signal to a role, as `pids` names it, once it is there; its process."""
        pid = wait_for(lambda: self.pids().get(role, 0), 20)
        with suppress(ProcessLookupError):
            if number == signal.SIGSTOP:
                self.stopped.add(pid)
            os.kill(pid, number)
        return int(pid)

    def has_callers(self) -> bool:
        """Whether any process that makes calls is at work."""
        return any(self._works(name, "worker-upstream") for name in list(self.berths))

    def _works(self, name: str, role: str) -> bool:
        """Whether the present process of a worker has come to its work; one that stands still does not count."""
        pid = self.berths[name].pids().get(role, 0)
        if not pid or pid in self.stopped:
            return False
        with suppress(OSError):
            began = time.time() - _age_seconds(pid)
            lines = (self.berths[name].home / "logs" / f"{role}.log").read_text(errors="replace").splitlines()
            said = [line.split()[0] for line in lines if line.rpartition(" role=")[0].endswith(" sweeps.")]
            return any(datetime.fromisoformat(each).timestamp() > began for each in said)
        return False

    def calm(self) -> None:
        """Ends all faults: proxies are healed, what was stopped goes on, no crash point is armed."""
        self.proxies.heal()
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()
        for path in self.crashpoints.glob("*.[0-9]*"):
            arming.disarm(self.crashpoints, path.stem)

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Ends faults and load, and waits until all jobs are terminal and all sessions free. Fails with what is left."""
        self.calm()
        self.load.end()
        try:
            wait_for(lambda: not self.left(), seconds)
        except AssertionError:
            raise AssertionError(f"after {seconds:.0f} s there is still {self.left()}") from None

    def left(self) -> dict[str, Any]:
        """What has not come to its end: jobs that are not terminal, sessions that are not free, by their states."""
        jobs = self.rows(
            "SELECT state, count(*) AS n FROM jobs_job WHERE state NOT IN %s GROUP BY state ORDER BY state", _ENDED
        )
        return {
            **{row["state"]: row["n"] for row in jobs},
            **{f"session {row['id']}": row["state"] for row in self.rows(_OCCUPIED)},
        }

    def evidence(self) -> "Evidence":
        """What the referee reads, once the simulators have written all they know."""
        from tests.referee.evidence import Evidence

        known = sum(int(self.of_simulator(name, "/report?since=0")["executions"]) for name in self.simulators)
        wait_for(lambda: sum(book.read_text().count('"what":"execution"') for book in self.books) == known)
        return Evidence(self.client_log, self.books, self.servers.run["database_url"])

    def of_simulator(self, name: str, path: str) -> Any:
        answer = httpx.get(self.simulators[name] + path, timeout=20)
        return answer.raise_for_status().json()

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Asks the database itself, past all proxies."""
        as_dict = psycopg2.extras.RealDictCursor
        with (
            closing(psycopg2.connect(self.servers.run["database_url"], connect_timeout=5)) as connection,
            connection,
            connection.cursor(cursor_factory=as_dict) as cursor,
        ):
            cursor.execute(sql, values or None)
            return [dict(row) for row in cursor.fetchall()] if cursor.description else []

    def at_end(self, close: Callable[[], object]) -> None:
        """Called when the world ends, before its processes do."""
        self._ending.callback(close)

    def stop(self) -> None:
        if hasattr(self, "load"):
            self.load.end()
        if hasattr(self, "proxies"):
            self.calm()
        self._ending.close()

    def stop_group(self, name: str) -> None:
        """Ends a group as an operator would."""
        self.berths.pop(name).stop()

    def _kill(self, name: str) -> None:
        if (berth := self.berths.pop(name, None)) is not None:
            berth.kill()

    def _folder(self, name: str) -> Path:
        folder = self.home / name
        folder.mkdir(mode=0o711)
        return folder

    def _simulator(self, name: str, book: Path) -> str:
        """The address of a simulator; `strict` executes again what is sent again."""
        accounts = self.home / f"{name}.json"
        accounts.write_text(json.dumps(declared.of_simulator(name)))
        command = [sys.executable, "-m", "simulator", "--latency", declared.LATENCY, "--book", str(book)]
        command += ["--accounts-file", str(accounts), *(["--no-idempotency"] if name == "strict" else [])]
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout is not None
        self._ending.callback(_end, process)
        return process.stdout.readline().split()[-1]

    def _issued(self, tenants: Collection[str]) -> list[str]:
        """A tenant and its key, line by line."""
        return self.web.manage("issue_key", *tenants).stdout.strip().splitlines()[-len(tenants) :]


def _age_seconds(pid: int) -> float:
    """How long a process has lived. Raises OSError when it does not."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()
