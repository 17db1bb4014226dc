"""Workers that are killed in the middle of a call: what they had is taken up, and the history says so."""

import os
import signal

import pytest

from tests.whole.cases.world import World
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
SOON_SECONDS = 40  # far below max_runtime: the key is sent again when the lease is over, which takes about four
CRASH_BUDGET = 3
WORKER = "worker-upstream"


def kill_the_worker(world: World) -> None:
    """And wait until another is there under the same name."""
    killed = world.berth.pid(WORKER)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: world.berth.pid(WORKER) not in {0, killed})


def starts(world: World, job_id: str) -> int:
    """How often a worker has begun to call for it."""
    return int(world.rows("SELECT COALESCE(sum(sendings), 0) FROM jobs_attempt WHERE job_id = %s", [job_id])[0][0])


def test_jobs_of_a_killed_worker_are_taken_up_and_one_that_kills_it_is_no_job_for_a_fourth(world: World) -> None:
    found, repeated = "worker is killed", "tried again"
    first, next_one = (
        world.submit(found, 1),
        world.submit(found),
    )  # the second waits for the only session of its account
    deadly = world.submit("crash loop", sim={"hang": "2s", "repeats": True})
    wait_for(lambda: starts(world, first) == starts(world, deadly) == 1)
    kill_the_worker(world)
    jobs = world.ended(found, [first, next_one], SOON_SECONDS)
    assert [(job["state"], job["attempts"]) for job in jobs] == [("completed", 1)] * 2
    assert len(world.executions([first, next_one])) == 2

    wait_for(lambda: starts(world, deadly) == 2)
    kill_the_worker(world)
    wait_for(lambda: starts(world, deadly) == CRASH_BUDGET)
    again = world.submit(repeated, 1, {"hang": "2s", "times": 1})
    wait_for(lambda: world.executions([again]))  # it hangs once: not before the upstream has it
    kill_the_worker(world)
    (job,) = world.ended("crash loop", [deadly])
    assert (job["state"], job["error"]["code"], starts(world, deadly)) == ("failed", "crash_budget", CRASH_BUDGET)
    assert world.sessions("crash loop") == {"available": 1}

    (job,) = world.ended(repeated, [again])
    assert (job["state"], job["attempts"], job["credits"]["charged"]) == ("completed", 2, "1.000000")
    lost, good = world.attempts(repeated, again)
    assert (lost["verdict"], lost["error"]["code"], good["verdict"]) == ("unknown", "worker_lost", "succeeded")
