"""Messages that come five times, or never, and workers that go in their midst: a message is a hint, state decides."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import redis

from tests.whole.cases.world import World
from tests.whole.running import wait_for
from tests.whole.test_outages import QUEUES, stopped, waiting

pytestmark = pytest.mark.processes
COPIES = 5
JOBS_THAT_MEET_ENDS = 40


@contextmanager
def hints_of(world: World) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(world.berth.run["redis_url"]) as client:
        yield client


def test_a_message_that_comes_five_times_calls_once(world: World) -> None:
    name = "copied messages"
    soon = datetime.now(UTC) + timedelta(seconds=2)
    with hints_of(world) as hints:
        with ExitStack() as deaf:
            for queue in QUEUES:  # what is published stays in the lists, for a moment
                deaf.enter_context(stopped(world.berth.pid(f"worker-{queue}")))
            ids = [world.submit(name, 0.2) for _ in range(6)]
            later = world.submit(name, run_at=soon.isoformat())
            wait_for(lambda: waiting(hints) > 0, 10)
            copied = [(queue, message) for queue in QUEUES for message in hints.lrange(queue, 0, -1)]
            for queue, message in copied * (COPIES - 1):
                hints.lpush(queue, message)
        jobs = world.ended(name, [*ids, later])
        for queue, message in copied * COPIES:  # and again, after all has ended
            hints.lpush(queue, message)
        wait_for(lambda: waiting(hints) == 0)
    assert {job["state"] for job in jobs} == {"completed"}
    book = world.executions([*ids, later])
    assert [line["repeats"] for line in book] == [0] * (len(ids) + 1)
    assert all(line["start"] >= soon.timestamp() for line in book if line["reference"] == f"job.{later}")
    assert {job["attempts"] for job in jobs} == {1}


def test_workers_that_go_and_lists_that_are_emptied_lose_no_job_and_stop_no_line(world: World) -> None:
    """One after the other ends or is killed while jobs flow over three sessions, and each time all messages are lost."""
    name = "workers come and go"
    with hints_of(world) as hints, ThreadPoolExecutor(1) as program:
        submitting = program.submit(world.submit_many, name, JOBS_THAT_MEET_ENDS, 0.2)
        for number, queue in enumerate(QUEUES):
            wait_for(lambda number=number: completed(world, name) > 3 * number)
            os.kill(world.berth.pid(f"worker-{queue}"), signal.SIGTERM if number == 0 else signal.SIGKILL)
            hints.delete(*QUEUES)
        ids = submitting.result()
    jobs = world.ended(name, ids)
    assert [job["state"] for job in jobs] == ["completed"] * JOBS_THAT_MEET_ENDS
    assert world.held(name) == (10_000 - JOBS_THAT_MEET_ENDS, 0)
    assert world.sessions(name) == {"available": 3}
    assert len(world.executions(ids)) == JOBS_THAT_MEET_ENDS


def completed(world: World, name: str) -> int:
    sql = "SELECT count(*) FROM jobs_job j JOIN jobs_jobtype t ON t.id = j.type_id WHERE t.name = %s AND j.state = 'completed'"
    return int(world.rows(sql, [name])[0][0])
