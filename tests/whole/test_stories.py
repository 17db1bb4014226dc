"""Stories over HTTP: a spike with and without faults, caps, and an operator's own upstream."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.whole.running import PROJECT, Running, ended, simulator, wait_for

pytestmark = pytest.mark.processes

SUBMIT = {
    "path": "'/run'",
    "headers": {"Idempotency-Key": "dispatch_key"},
    "idempotent": True,
    "success": "response.status == 200 && response.body.status == 'done'",
    "failed": "response.status == 200 && response.body.status == 'failed'",
    "units": "response.body.units",
}


def config(name: str, url: str, accounts: int, tenants: dict[str, Any]) -> dict[str, Any]:
    """One pool, one type and tenants, all of this name; the credentials are the simulator's."""
    return {
        "pools": {
            name: {
                "upstream": {"base_url": url, "headers": {"Authorization": "'Bearer ' + account.credential"}},
                "accounts": {
                    f"acct-{n:03}": {"sessions": 1, "credential": {"env": f"CREDENTIAL_{n}"}}
                    for n in range(1, accounts + 1)
                },
            }
        },
        "job_types": {
            name: {
                "pool": name,
                "price": "2",
                "settle": "outcome.units",
                "max_runtime": "1m",
                "delivery": "at_least_once",
                "upstream": {"submit": SUBMIT},
            }
        },
        "tenants": tenants,
    }


def credentials(accounts: int) -> dict[str, str]:
    return {f"CREDENTIAL_{n}": f"sim-acct-{n:03}" for n in range(1, accounts + 1)}


def submit_all(client: httpx.Client, job_type: str, jobs: int, threads: int = 16) -> set[str]:
    """Many programs of one tenant submit at once; ids of the accepted jobs."""

    def submit(_number: int) -> str:
        answer = client.post("/v1/jobs", json={"type": job_type, "payload": {"pages": 1}})
        assert answer.status_code in (200, 202), answer.text  # 200: it has ended already
        return str(answer.json()["id"])

    with ThreadPoolExecutor(threads) as pool:
        return set(pool.map(submit, range(jobs)))


def report(url: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url}/report").json())


@contextmanager
def emptied_each_second(redis_url: str) -> Iterator[None]:
    over = threading.Event()

    def empty() -> None:
        with redis.Redis.from_url(redis_url) as client:
            while not over.wait(1.0):
                client.flushall()

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_cap_of_five_is_never_six(berth: Running) -> None:
    with simulator("--accounts", "10", "--latency", "300ms") as url:  # long enough for five to meet
        berth.apply(config("capped", url, 10, {"five": {"credits": 1000, "max_running": 5}}), **credentials(10))
        with berth.client("five") as client:
            ids = submit_all(client, "capped", 80, threads=16)
            jobs = wait_for(lambda: ended(client, ids))
        assert {job["state"] for job in jobs} == {"completed"}
        starts = [(e["start"], 1) for e in executions(url)] + [(e["end"], -1) for e in executions(url)]
        running = most = 0
        for _, step in sorted(starts):
            running += step
            most = max(most, running)
        assert most == 5
        assert report(url)["overlaps"] == 0
    assert berth.audit_breaches() == {}


def test_an_emptied_redis_and_a_killed_worker_lose_nothing(berth: Running) -> None:
    with simulator("--accounts", "6", "--latency", "150ms") as url, ExitStack() as closing:
        tenants = {f"hit-{n}": {"credits": 100} for n in range(4)}
        berth.apply(config("faults", url, 6, tenants), **credentials(6))
        clients = {name: closing.enter_context(berth.client(name)) for name in tenants}
        with emptied_each_second(berth.run["redis_url"]):
            ids = {name: submit_all(client, "faults", 30, threads=4) for name, client in clients.items()}
            killed = berth.pid("worker-upstream")
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda: berth.pid("worker-upstream") not in {0, killed})
            jobs = [job for name, client in clients.items() for job in wait_for(partial(ended, client, ids[name]))]
        assert [job["state"] for job in jobs] == ["completed"] * 120
        figures = report(url)
        assert (figures["overlaps"], figures["double_executions"], figures["jobs"]) == (0, 0, 120)
        for client in clients.values():
            assert client.get("/v1/balance").json()["posted"] == "70.000000"
    assert berth.audit_breaches() == {}


def test_an_upstream_that_does_not_deduplicate_is_never_asked_twice(berth: Running) -> None:
    with simulator("--accounts", "1", "--latency", "3s", "--no-idempotency") as url:
        own = config("careful", url, 1, {"careful": {"credits": 100}})
        own["job_types"]["careful"].update(delivery="at_most_once", max_runtime="6s")
        own["job_types"]["careful"]["upstream"] = {"submit": {**SUBMIT, "idempotent": False, "timeout": "5s"}}
        berth.apply(own, **credentials(1))
        with berth.client("careful") as client:
            first, second = (client.post("/v1/jobs", json={"type": "careful", "payload": {}}).json() for _ in "12")
            wait_for(lambda: report(url)["received"] == 1)
            os.kill(berth.pid("worker-upstream"), signal.SIGKILL)
            jobs = wait_for(lambda: ended(client, {first["id"], second["id"]}))
        by_id = {job["id"]: job for job in jobs}
        assert by_id[first["id"]]["state"] == "failed"
        assert by_id[first["id"]]["error"]["code"] == "outcome_unknown"
        assert by_id[second["id"]]["state"] == "completed"
        figures = report(url)
        assert (figures["executions"], figures["overlaps"], figures["double_executions"]) == (2, 0, 0)
    assert berth.audit_breaches() == {}


class OwnUpstream(BaseHTTPRequestHandler):
    """An operator's upstream in its own dialect: another path, an API key header, nested answers, units as pages."""

    seen: list[tuple[str, str, Any]] = []

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, self.headers["X-Api-Key"], body))
        answer = json.dumps({"data": {"text": body["prompt"].upper(), "usage": {"pages": 3}}, "ok": True}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: Any) -> None:
        """Tests stay quiet."""


def test_an_operators_own_upstream_needs_no_code(berth: Running) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OwnUpstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    own = {
        "pools": {
            "words": {
                "upstream": {"base_url": url, "headers": {"X-Api-Key": "account.credential"}},
                "accounts": {"main": {"sessions": 2, "credential": {"env": "WORDS_KEY"}, "vars": {"model": "big one"}}},
            }
        },
        "job_types": {
            "shout": {
                "pool": "words",
                "price": "0.5 * payload.pages",
                "settle": "0.1 * outcome.units",
                "max_runtime": "1m",
                "upstream": {
                    "submit": {
                        "method": "PUT",
                        "path": "'/v7/' + account.vars.model + '/say'",
                        "body": "{'prompt': payload.words}",
                        "success": "response.body.ok",
                        "result": "response.body.data.text",
                        "units": "response.body.data.usage.pages",
                    }
                },
            }
        },
        "tenants": {"speaker": {"credits": 10}},
    }
    berth.apply(own, WORDS_KEY="letmein")
    with berth.client("speaker") as client:
        accepted = client.post("/v1/jobs", json={"type": "shout", "payload": {"words": "hello", "pages": 4}}).json()
        assert accepted["credits"]["held"] == "2.000000"
        job = client.get(f"/v1/jobs/{accepted['id']}", params={"wait": 20}).json()
        assert (job["state"], job["result"], job["credits"]["charged"]) == ("completed", "HELLO", "0.300000")
        assert client.get("/v1/balance").json()["available"] == "9.700000"
    assert OwnUpstream.seen == [("/v7/big%20one/say", "letmein", {"prompt": "hello"})]
    server.shutdown()
    server.server_close()
    assert berth.audit_breaches() == {}


def test_the_demo_ends_well(tmp_path: Path) -> None:
    arguments = ["--exit", "--tenants", "4", "--jobs", "10", "--latency", "50ms", "--home", str(tmp_path / "var")]
    tmp_path.chmod(0o711)
    environment = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL", "BERTH_HOME"}}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bench.demo", *arguments],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "var" / "demo-report.json").read_text())
    assert (figures["submitted"], figures["completed"], figures["audit_breaches"]) == (40, 40, 0), begun


def executions(url: str) -> list[dict[str, Any]]:
    return list(httpx.get(f"{url}/book", params={"limit": 1000}).json())
