"""Cancels over HTTP: around the start, before a restart of the worker, and of what hangs at the upstream."""

import os
import signal
from typing import Any

import pytest

from tests.races.over_http import race
from tests.whole.cases.world import World
from tests.whole.running import Running, wait_for

pytestmark = pytest.mark.processes
NOTHING = {"held": "0.000000", "charged": "0.000000", "refunded": "0.000000"}


def cancel(world: World, name: str, job_id: str) -> dict[str, Any]:
    return dict(world.clients[name].post(f"/v1/jobs/{job_id}/cancel").json())


def test_a_cancel_that_says_cancelled_comes_before_every_start(berth: Running) -> None:
    said = race(berth, rounds=40, seed=1)
    assert said["cancelled"] > 0
    assert said.total() - said["cancelled"] > 0


def test_what_was_cancelled_does_not_start_after_a_restart_and_others_flow_on(world: World) -> None:
    """A cancel stands in the database: it needs no worker that remembers it."""
    name, backs_off = "cancelled", "cancelled, backs off"
    retrying = world.submit(backs_off, sim={"fail": 503, "times": 1})
    wait_for(lambda: world.job(backs_off, retrying)["attempts"] == 1 and world.sessions(backs_off) == {"available": 1})
    wait_for(lambda: world.job(backs_off, retrying)["state"] == "pending")
    running = world.submit(name, 3)
    wait_for(lambda: world.job(name, running)["state"] == "processing")
    waiting, other = world.submit(name), world.submit(name)

    said = [cancel(world, name, running), cancel(world, name, waiting), cancel(world, backs_off, retrying)]
    assert [job["state"] for job in said] == ["processing", "cancelled", "cancelled"]
    worker = world.berth.pid("worker-upstream")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: world.berth.pid("worker-upstream") not in {0, worker})

    asked, gone, flown = world.ended(name, [running, waiting, other])
    (backed_off,) = world.ended(backs_off, [retrying])
    assert (gone["state"], gone["credits"]) == ("cancelled", NOTHING)
    assert (backed_off["state"], backed_off["credits"]) == ("cancelled", NOTHING)
    assert (asked["state"], asked["credits"]) == ("cancelled", NOTHING)  # nobody asks twice for what nobody wants
    assert flown["state"] == "completed"
    assert world.executions([waiting]) == []
    assert len(world.executions([running])) == 1
    assert all(line["outcome"] == "failed" for line in world.executions([retrying]))


def test_a_cancel_of_what_hangs_keeps_its_session_until_the_upstream_is_certainly_done(world: World) -> None:
    name = "hangs"
    job_id = world.submit(name, sim={"hang": "4s"})
    wait_for(lambda: world.job(name, job_id)["state"] == "processing")
    assert cancel(world, name, job_id)["cancel_requested"] is True
    assert world.sessions(name) == {"busy": 1}
    (job,) = world.ended(name, [job_id], 15)
    assert (job["state"], job["credits"]) == ("cancelled", NOTHING)
    assert world.sessions(name) == {"available": 1}
