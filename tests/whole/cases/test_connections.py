"""Connections that are cut, and clients that hang up: what runs is done once, and what was opened is closed."""

import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
import redis

from tests.whole.cases.world import World
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
LEASE_SECONDS = 3
POLLS, IMPATIENT_SECONDS, MOST_LEFT_OVER = 100, 0.3, 10
CUT_EACH_SECONDS, QUICK_JOBS = 0.2, 60


@pytest.fixture(scope="module")
def long_jobs(shared_world: World) -> tuple[list[str], float]:
    """Two jobs of three leases each, begun before the other tests of this file; and since when."""
    ids = [shared_world.submit("long", 3 * LEASE_SECONDS + 1) for _ in range(2)]
    wait_for(lambda: len(shared_world.executions(ids)) == 2)
    return ids, time.monotonic()


@pytest.mark.usefixtures("long_jobs")
def test_polls_of_clients_that_hang_up_leave_no_connection_behind(world: World) -> None:
    name = "polled by many"
    job_id = world.submit(name, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    before = connections(world)

    address = urlsplit(world.berth.run["web_url"])
    request = f"GET /v1/jobs/{job_id}?wait=20 HTTP/1.1\r\nHost: {address.netloc}\r\n"
    request += f"Authorization: {world.clients[name].headers['Authorization']}\r\n\r\n"

    def poll(number: int) -> None:
        with socket.create_connection((address.hostname, address.port)) as program:
            program.sendall(request.encode())
            time.sleep(IMPATIENT_SECONDS)
            if number % 2:  # an abrupt end: a reset instead of a farewell
                program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    with ThreadPoolExecutor(16) as programs:
        list(programs.map(poll, range(POLLS)))
    left = {place: number + MOST_LEFT_OVER for place, number in before.items()}
    wait_for(lambda: all(number <= left[place] for place, number in connections(world).items()))
    world.clients[name].post(f"/v1/jobs/{job_id}/cancel")


def connections(world: World) -> dict[str, int]:
    """Connections to the database and to Redis, and channels that somebody listens to."""
    with redis.Redis.from_url(world.berth.run["redis_url"]) as client:
        of_redis = {"redis": len(client.client_list()), "channels": len(client.pubsub_channels())}
    ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return {**of_redis, "postgres": int(world.rows(ours)[0][0])}


@pytest.mark.usefixtures("long_jobs")
def test_database_connections_that_are_cut_again_and_again_make_no_call_twice(world: World) -> None:
    name, dice, over = "connections are cut", random.Random(16), threading.Event()

    def cut() -> None:
        while not over.wait(CUT_EACH_SECONDS):
            backends = world.rows(
                "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'berth worker%' AND pid <> pg_backend_pid()"
            )
            if backends:
                world.rows("SELECT pg_terminate_backend(%s)", [dice.choice(backends)[0]])

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        ids = world.submit_many(name, QUICK_JOBS, 0.001)
        jobs = world.ended(name, ids, 60)
    finally:
        over.set()
        cutting.join()
    assert {job["state"] for job in jobs} == {"completed"}
    assert len(world.executions(ids)) == QUICK_JOBS
    assert world.held(name) == (10_000 - QUICK_JOBS, 0)


def test_a_job_of_three_leases_is_called_once_whatever_its_connections_meet(
    world: World, long_jobs: tuple[list[str], float]
) -> None:
    """Its call may take longer than a lease: heartbeats extend it, from a thread and a connection of their own."""
    ids, since = long_jobs
    jobs = world.ended("long", ids)
    assert time.monotonic() - since > 2 * LEASE_SECONDS
    assert [(job["state"], job["attempts"]) for job in jobs] == [("completed", 1)] * 2
    assert [line["repeats"] for line in world.executions(ids)] == [0, 0]
