"""A real installation goes back to its backup: what was lost in between runs no second time, and everything ends."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.whole.asking.world import FIND, POLL
from tests.whole.asking.world import SUBMIT as TASK
from tests.whole.running import Running, ended, simulator, wait_for
from tests.whole.test_outages import stopped
from tests.whole.test_stories import SUBMIT as RUN
from tests.whole.test_stories import credentials, report

pytestmark = pytest.mark.processes

ROLES = "web,worker-assign,worker-transitions,worker-upstream"
MAX_RUNTIME = "12s"
JOBS = 24
LOST = 4
ONCE = {**RUN, "idempotent": False}
# Name → accounts, sessions each, how it is called. `found` can be asked by key, `once` tells nothing, `same` deduplicates.
KINDS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "found": (5, 1, {"mode": "poll", "submit": TASK, "poll": POLL, "find": FIND}),
    "once": (5, 1, {"submit": ONCE}),
    "same": (1, 5, {"submit": RUN}),
}


class Installation:
    """Servers under one `up`, the processes of Berth under another, and two upstreams that nothing here kills."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        folder.chmod(0o711)
        self.homes = {name: folder / name for name in ("servers", "processes")}
        for home in self.homes.values():
            home.mkdir(mode=0o711)
        self.servers = Running(self.homes["servers"], "--only", "postgres,valkey")
        ending.callback(self.servers.stop)
        self.ending = ending
        self.berth = self._start()

    def _start(self) -> Running:
        theirs = {name: value for name, value in self.servers.run["env"].items() if name != "BERTH_HOME"}
        return Running(self.homes["processes"], "--only", ROLES, **theirs)

    def kill_everything(self) -> None:
        """As a power cut would end it; the servers come back by themselves."""
        pids = list(self.servers.pids().values())
        self.berth.kill()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not set(self.servers.pids().values()) & {0, *pids})
        wait_for(lambda: self.servers.manage("restored", "--status").returncode == 0)

    def start_again(self) -> None:
        self.berth = self._start()
        self.ending.callback(self.berth.stop)


def config(urls: dict[str, str]) -> dict[str, Any]:
    headers = {"Authorization": "'Bearer ' + account.credential"}
    pools, types = {}, {}
    for name, (accounts, sessions, upstream) in KINDS.items():
        pools[name] = {
            "upstream": {"base_url": urls[name], "headers": headers},
            "accounts": {
                f"acct-{n:03}": {"sessions": sessions, "credential": {"env": f"CREDENTIAL_{n}"}}
                for n in range(1, accounts + 1)
            },
        }
        types[name] = {"pool": name, "price": "1", "max_runtime": MAX_RUNTIME, "upstream": upstream}
    return {"pools": pools, "job_types": types, "tenants": {"restored": {"credits": 10_000}}}


def submit(client: httpx.Client, kind: str, key: str) -> httpx.Response:
    body = {"type": kind, "payload": {"pages": 1, "units": 1}}
    answer = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": f"{kind}-{key}"})
    assert answer.status_code in (200, 202), answer.text
    return answer


def submit_all(client: httpx.Client, name: str, jobs: int) -> dict[str, set[str]]:
    """So many of each kind; their ids."""
    wanted = [(kind, f"{name}-{n:08}") for n in range(jobs) for kind in KINDS]
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda each: submit(client, *each), wanted)
        made: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for (kind, _), answer in zip(wanted, answers, strict=True):
            made[kind].add(answer.json()["id"])
    return made


def executions(url: str) -> Counter[str]:
    """How often each job was executed."""
    return Counter(line["reference"] for line in httpx.get(f"{url}/book?limit=100000").json())


@pytest.fixture
def upstreams() -> Iterator[dict[str, str]]:
    with ExitStack() as ending:
        yield {
            name: ending.enter_context(
                simulator(
                    *("--accounts", str(accounts), "--sessions", str(sessions), "--latency", "1s"),
                    *(() if name == "same" else ("--no-idempotency",)),
                )
            )
            for name, (accounts, sessions, _) in KINDS.items()
        }


def test_what_was_lost_runs_no_second_time_and_everything_ends(
    tmp_path_factory: pytest.TempPathFactory, upstreams: dict[str, str]
) -> None:
    with ExitStack() as ending:
        installation = Installation(tmp_path_factory.mktemp("restore"), ending)
        berth, file = installation.berth, tmp_path_factory.mktemp("backups") / "berth.backup"
        berth.apply(config(upstreams), **credentials(5))
        client = ending.enter_context(berth.client("restored"))
        with stopped(berth.pid("worker-upstream")):  # however slow the machine is, most wait when the backup is taken
            kept = submit_all(client, "kept", JOBS)
        wait_for(lambda: all(report(url)["executions"] for url in upstreams.values()))
        with stopped(berth.pid("worker-upstream")):
            made = berth.manage("backup", str(file))
        assert (made.returncode, file.stat().st_mode & 0o777) == (0, 0o600), made.stderr
        under_way = int(made.stdout.partition(" job")[0].rpartition(" ")[2])
        lost = submit_all(client, "lost", LOST)
        wait_for(lambda: all(report(url)["executions"] >= JOBS for url in upstreams.values()))
        installation.kill_everything()

        refused = installation.servers.manage("restore", str(file))
        assert "--replace" in refused.stderr
        put_back = installation.servers.manage("restore", str(file), "--replace")
        assert put_back.returncode == 0, put_back.stderr
        assert set(KINDS) == {line.split()[1][:-1] for line in closed(installation)}
        installation.start_again()
        berth = installation.berth
        client.base_url = httpx.URL(berth.run["web_url"])

        repeated = submit(client, "found", "kept-00000003")
        assert (repeated.json()["id"] in kept["found"], repeated.headers["Idempotency-Replayed"]) == (True, "true")
        forgotten = submit(client, "found", "lost-00000000")
        assert forgotten.json()["id"] not in lost["found"]
        assert "Idempotency-Replayed" not in forgotten.headers
        assert forgotten.headers["Berth-Restored-To"] < forgotten.headers["Berth-Restored-At"]
        assert client.get(f"/v1/jobs/{min(lost['once'])}").status_code == 404

        jobs = {kind: wait_for(partial(ended, client, ids)) for kind, ids in kept.items()}
        wait_for(lambda: ended(client, {forgotten.json()["id"]}))
        assert under_way > JOBS / 2, "the backup was taken too late to show anything"
        for kind, url in upstreams.items():
            assert max(executions(url).values()) == 1, kind
            assert report(url)["overlaps"] == 0, kind
        assert {job["state"] for job in jobs["found"] + jobs["same"]} == {"completed"}
        codes = {(job["error"] or {}).get("code") for job in jobs["once"]}
        assert {"outcome_unknown"} <= codes <= {None, "outcome_unknown"}
        wait_for(lambda: closed(installation) == ["every pool is open"])
        assert berth.audit_breaches() == {}


def closed(installation: Installation) -> list[str]:
    return installation.servers.manage("restored", "--status").stdout.splitlines()
