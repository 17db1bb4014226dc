"""Stories of servers that go away and come back: what was accepted is done, and no process but the server is restarted."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest
import redis

from broker_project.supervisor.ports import free_ports
from broker_project.supervisor.processes import ProcessTable
from broker_project.supervisor.signals import IMPATIENT_AFTER_SECONDS
from broker_project.supervisor.valkey import EmbeddedValkey
from tests.servers import await_answer
from tests.supervisor.waiting import is_running
from tests.whole.running import Running, ended, simulator, wait_for
from tests.whole.test_stories import config, credentials, report, submit_all

pytestmark = pytest.mark.processes

SUBMIT_SECONDS = 2.0  # of one submit while Redis is away
HANG_SECONDS = 6.0  # of one that is refused because the database is away
CALLERS = {"assign", "transitions", "upstream"}
QUEUES = sorted(CALLERS)
ROLES = "web,worker-assign,worker-transitions,worker-upstream"


def submit(client: httpx.Client, job_type: str) -> httpx.Response:
    return client.post("/v1/jobs", json={"type": job_type, "payload": {"pages": 1}})


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process is there and does nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def waiting(client: "redis.Redis") -> int:
    """Messages that no worker has taken."""
    return sum(int(client.llen(queue)) for queue in QUEUES)


def test_a_deaf_redis_holds_up_no_submit_and_no_job_and_is_taken_up_again(berth: Running) -> None:
    before = berth.pids()
    with simulator("--accounts", "4", "--latency", "100ms") as url, berth_of(berth, "deaf", url, 4) as client:
        ids = set()
        with stopped(before["valkey"]):
            for _ in range(12):
                began = time.monotonic()
                answer = submit(client, "deaf")
                assert (answer.status_code, time.monotonic() - began < SUBMIT_SECONDS) == (202, True)
                ids.add(answer.json()["id"])
            wait_for(lambda: ended(client, ids))  # by the sweep alone
        with redis.Redis.from_url(berth.run["redis_url"]) as hints:
            wait_for(lambda: berth.answering_workers() == CALLERS)
            wait_for(lambda: waiting(hints) == 0)
            wait_for(lambda: dict(hints.pubsub_numsub("berth:jobs"))[b"berth:jobs"] == 1)  # live listens again
        began = time.monotonic()
        job = client.get(f"/v1/jobs/{submit(client, 'deaf').json()['id']}", params={"wait": 20}).json()
        assert (job["state"], time.monotonic() - began < 10) == ("completed", True)
        assert report(url)["double_executions"] == 0
    assert berth.pids() == before
    assert berth.audit_breaches() == {}


def test_a_killed_database_refuses_for_a_moment_and_loses_nothing(berth: Running) -> None:
    before = berth.pids()
    with simulator("--accounts", "4", "--latency", "300ms") as url, berth_of(berth, "gap", url, 4) as client:
        ids = submit_all(client, "gap", 20, threads=4)
        refused: list[httpx.Response] = []
        with ThreadPoolExecutor(5) as threads:
            poll: Future[httpx.Response] = threads.submit(client.get, f"/v1/jobs/{max(ids)}", params={"wait": 25})
            wait_for(lambda: report(url)["received"] > 0)
            os.kill(before["postgres"], signal.SIGKILL)
            accepted = [threads.submit(until_accepted, client, "gap", refused) for _ in range(4)]
            ids |= {each.result() for each in accepted}
            poll.result()
        assert refused, "nobody noticed"
        jobs = wait_for(lambda: ended(client, ids))
        assert [job["state"] for job in jobs] == ["completed"] * len(ids)
        figures = report(url)
        assert (figures["overlaps"], figures["double_executions"], figures["jobs"]) == (0, 0, len(ids))
    for answer in refused:
        assert answer.status_code == 503
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        assert "Retry-After" in answer.headers
        assert answer.elapsed.total_seconds() < HANG_SECONDS
    assert {role for role, pid in berth.pids().items() if pid != before[role]} == {"postgres"}
    assert berth.audit_breaches() == {}


def until_accepted(client: httpx.Client, job_type: str, refused: list[httpx.Response]) -> str:
    """A tenant's program that repeats with the same key until it has an answer; the id of its job."""
    headers = {"Idempotency-Key": f"outage-{time.monotonic_ns()}-of-postgres"}
    for _ in range(200):
        answer = client.post("/v1/jobs", json={"type": job_type, "payload": {}}, headers=headers)
        if answer.status_code in {200, 202} and refused:
            return str(answer.json()["id"])
        if answer.status_code not in {200, 202}:
            refused.append(answer)
        time.sleep(0.05)
    raise AssertionError("never accepted")


class Apart:
    """The database of one `up`, processes of another, and a Redis of the operator's own that is not there at first."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        folder.chmod(0o711)
        homes = {name: folder / name for name in ("servers", "processes", "redis")}
        for home in homes.values():
            home.mkdir(mode=0o711)
        self.servers = Running(homes["servers"], "--only", "postgres")
        ending.callback(self.servers.stop)
        self.table, self.log = ProcessTable(), homes["redis"] / "valkey.log"
        ending.callback(self.table.stop_all)
        self.redis = EmbeddedValkey(homes["redis"], free_ports(1)[0], "secret")
        theirs = {name: value for name, value in self.servers.run["env"].items() if name != "BERTH_HOME"}
        self.berth = Running(homes["processes"], "--only", ROLES, **{**theirs, "REDIS_URL": self.redis.url})
        ending.callback(self.berth.stop)

    def start_redis(self) -> None:
        """From now on it is there."""
        if not self.table.entries:
            entry = self.table.start(self.redis.role(self.log))
            await_answer(self.redis.answers, entry.log_text)

    def kill_redis(self) -> None:
        """As a crash would end it."""
        process = self.table.entries.pop("valkey").process
        assert process is not None
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with ExitStack() as ending:
        yield Apart(tmp_path_factory.mktemp("apart"), ending)


def test_processes_start_without_redis_and_take_it_up_when_it_comes(apart: Apart) -> None:
    berth, before = apart.berth, apart.berth.pids()
    assert (set(apart.servers.pids()), set(before)) == ({"postgres"}, set(ROLES.split(",")))
    assert "Redis, or the broker, does not answer" in berth.said
    assert "The workers sweep and make calls" in berth.said
    with simulator("--accounts", "2", "--latency", "50ms") as url, berth_of(berth, "early", url, 2) as client:
        ids = submit_all(client, "early", 4, threads=2)
        jobs = wait_for(lambda: ended(client, ids))
        assert {job["state"] for job in jobs} == {"completed"}

        apart.start_redis()
        wait_for(lambda: berth.answering_workers() == CALLERS)
        ids = submit_all(client, "early", 4, threads=2)
        wait_for(lambda: ended(client, ids))
        with redis.Redis.from_url(apart.redis.url) as hints:
            wait_for(lambda: waiting(hints) == 0)
    assert berth.pids() == before
    assert berth.audit_breaches() == {}


def test_a_redis_that_is_killed_while_workers_hold_messages_takes_no_worker_along(apart: Apart) -> None:
    berth = apart.berth
    apart.start_redis()
    wait_for(lambda: berth.answering_workers() == CALLERS)
    before = berth.pids()
    with simulator("--accounts", "10", "--latency", "1s") as url, berth_of(berth, "load", url, 10) as client:
        ids = submit_all(client, "load", 20, threads=8)
        wait_for(lambda: report(url)["received"] >= 10)  # by then some may have ended
        with balances_held(berth.run["database_url"]) as tasks_that_wait:
            wait_for(lambda: tasks_that_wait() > 1)  # in the middle of their messages
            apart.kill_redis()
            time.sleep(1.0)
        apart.start_redis()
        wait_for(lambda: ended(client, ids))
        wait_for(lambda: berth.answering_workers() == CALLERS)
        assert report(url)["double_executions"] == 0
    assert berth.pids() == before
    assert berth.audit_breaches() == {}


@contextmanager
def balances_held(database_url: str) -> Iterator[Callable[[], int]]:
    """Nobody may account for anything; says how many sessions wait for that."""
    connection = psycopg2.connect(database_url)
    cursor = connection.cursor()
    cursor.execute("LOCK TABLE credits_balance IN EXCLUSIVE MODE")

    def waiting_sessions() -> int:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'credits_balance'::regclass")
        return int((cursor.fetchone() or (0,))[0])

    try:
        yield waiting_sessions
    finally:
        connection.rollback()
        connection.close()


def test_a_second_ctrl_c_does_not_wait_for_calls_in_flight(apart: Apart) -> None:
    berth, pids = apart.berth, apart.berth.pids()
    with simulator("--accounts", "1", "--latency", "30s") as url, berth_of(berth, "long", url, 1) as client:
        assert submit(client, "long").status_code == 202
        wait_for(lambda: report(url)["received"] == 1)
        berth.process.send_signal(signal.SIGINT)
        time.sleep(IMPATIENT_AFTER_SECONDS + 0.5)
        assert berth.process.poll() is None

        berth.process.send_signal(signal.SIGINT)
        assert berth.process.wait(15) == 0
    assert not [role for role, pid in pids.items() if is_running(pid)]
    assert not (berth.home / "run.json").exists()


@contextmanager
def berth_of(berth: Running, name: str, url: str, accounts: int) -> Iterator[httpx.Client]:
    """A pool, a type and a tenant of this name, and the tenant's client."""
    tenants: dict[str, Any] = {name: {"credits": 1000}}
    berth.apply(config(name, url, accounts, tenants), **credentials(accounts))
    with berth.client(name) as client:
        yield client
