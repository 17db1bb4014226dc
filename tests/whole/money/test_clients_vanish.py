"""Clients that hang up, an emptied Redis and a killed worker keep no credits back."""

import json
import os
import random
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import redis

from tests.whole.money.world import World
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
TENANT = "disconnects"
VANISHING, STAYING = 150, 150
JOBS = """
SELECT j.state, count(*), sum(j.charged) FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id
WHERE t.name = %s GROUP BY 1
"""


def hang_up(url: str, api_key: str, number: int, dice: random.Random) -> None:
    """Sends a submit, whole or cut off, and goes without reading the answer."""
    body = json.dumps({"type": "charged by usage", "payload": {"latency_ms": 50}}).encode()
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nAuthorization: Bearer {api_key}\r\n"
        f"Idempotency-Key: vanishing-{number:08}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    whole = head + body
    with socket.create_connection(("127.0.0.1", urlsplit(url).port)) as connection:
        connection.sendall(whole if number % 3 else whole[: dice.randrange(len(whole))])
        if number % 2:  # an abrupt end: a reset instead of a farewell
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def test_all_that_was_not_charged_can_be_used_to_the_last_unit(world: World) -> None:
    dice = random.Random(5)
    work = [{"latency_ms": 50}]
    with ThreadPoolExecutor(8) as threads:
        vanished = [threads.submit(hang_up, world.webs[n % 4], world.keys[TENANT], n, dice) for n in range(VANISHING)]
        world.submit(TENANT, "charged by usage", work * (STAYING // 2), clients=8)
        for each in vanished:
            each.result()
    killed = world.berth.pid("worker-upstream")
    os.kill(killed, signal.SIGKILL)
    with redis.Redis.from_url(world.berth.run["redis_url"]) as hints:
        hints.flushall()
    world.submit(TENANT, "charged by usage", work * (STAYING // 2), clients=8)
    wait_for(lambda: world.berth.pid("worker-upstream") not in {0, killed})
    wait_for(lambda: {state for state, _, _ in world.rows(JOBS, [TENANT])} == {"completed"})
    ((_, count, charged),) = world.rows(JOBS, [TENANT])
    # One that was cut off is none; one whose sender is seen to be gone need not be begun.
    assert STAYING <= count <= STAYING + VANISHING - len(range(0, VANISHING, 3))
    posted, held, available = world.balance(TENANT)
    assert (posted, held, available) == (1_000 - charged / 1_000_000, 0, posted)
    (all_of_it,) = world.submit(TENANT, "as asked", [{"credits": available}])
    assert (all_of_it.status, all_of_it.document["credits"]["held"]) == (202, f"{available:.6f}")
    (one_unit_more,) = world.submit(TENANT, "as asked", [{"credits": 0.000001}])
    assert one_unit_more.status == 402
    world.jobs(TENANT, {all_of_it.document["id"]})
    assert world.balance(TENANT) == (0, 0, 0)
