"""All that works is killed at once, and Redis is emptied: the queue is a table."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
import redis

from tests.whole.cases.world import World
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
QUEUED = 10  # as many as stand in line
KEPT = {"postgres"}
TURNS = "SELECT id FROM jobs_job WHERE id = ANY (%s::uuid[]) ORDER BY assigned_at, turn, id"


def test_after_all_was_killed_the_queue_has_its_order_and_what_ran_is_not_done_again(world: World) -> None:
    name = "all is killed"
    running = [world.submit(name, 8) for _ in range(2)]  # long enough to make and count a queue behind them
    wait_for(lambda: len(world.executions(running)) == 2)
    queued = [world.submit(name) for _ in range(QUEUED)]
    assert places(world, queued) == {job_id: number for number, job_id in enumerate(queued, 1)}

    pids = {role: pid for role, pid in world.berth.pids().items() if role not in KEPT}
    with redis.Redis.from_url(world.berth.run["redis_url"]) as hints:
        hints.flushall()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(now not in {0, pids[role]} for role, now in world.berth.pids().items() if role in pids))
    wait_for(lambda: answers(world))
    left = places(world, queued)
    # One was asked after the other, while the first ones may have begun; nobody has lost a place.
    assert all(left[job_id] <= number for number, job_id in enumerate(queued, 1) if job_id in left)

    jobs = world.ended(name, [*running, *queued], 60)
    assert [(job["state"], job["attempts"]) for job in jobs] == [("completed", 1)] * len(jobs)
    assert len(world.executions([*running, *queued])) == len(jobs)
    # Their turns come in this order; of two that have theirs at once the upstream may hear of either first.
    in_order = [str(job_id) for (job_id,) in world.rows(TURNS, [queued])]
    assert all(abs(in_order.index(job_id) - number) <= 1 for number, job_id in enumerate(queued)), "two at once"


def places(world: World, ids: list[str]) -> dict[str, int]:
    """The position of each of the jobs that waits."""
    with ThreadPoolExecutor(8) as programs:
        jobs = programs.map(partial(world.job, "all is killed"), ids)
    return {job["id"]: job["queue"]["position"] for job in jobs if job["queue"]}


def answers(world: World) -> bool:
    try:
        return httpx.get(f"{world.berth.run['web_url']}/readyz").status_code == 200
    except httpx.HTTPError:
        return False
