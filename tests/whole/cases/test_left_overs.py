"""What stays behind when jobs end in every bad way: nothing. And jobs that make no sense hold up no neighbour."""

import json
import re

import httpx
import pytest

from tests.whole.cases.world import World
from tests.whole.running import wait_for

pytestmark = pytest.mark.processes
EACH = 4
GAUGE = re.compile(r'^(berth_(?:jobs|sessions))\{pool="leaks",state="(\w+)"\} (\d+)', re.M)


def test_jobs_that_hang_are_cut_or_are_cancelled_leave_every_session_free_and_every_gauge_true(world: World) -> None:
    name = "leaks"
    hanging = [world.submit(name, sim={"hang_poll": "10s"}) for _ in range(EACH)]
    cut = [world.submit(name, sim={"accept_then_drop": True}) for _ in range(EACH)]
    cancelled = [world.submit(name, 2) for _ in range(EACH)]
    for job_id in cancelled:
        world.clients[name].post(f"/v1/jobs/{job_id}/cancel")
    jobs = world.ended(name, [*hanging, *cut, *cancelled], 60)
    assert {job["error"]["code"] for job in jobs[:EACH]} == {"outcome_unknown"}
    assert {job["state"] for job in jobs[EACH : 2 * EACH]} == {"completed"}
    assert {job["state"] for job in jobs[2 * EACH :]} <= {"cancelled", "completed"}

    states = {"available": EACH}
    wait_for(lambda: world.sessions(name) == states, 10)
    wait_for(lambda: shown(world) == {("sessions", state): n for state, n in states.items()}, 15)
    open_attempts = "SELECT count(*) FROM jobs_attempt a JOIN pool_upstreamaccount u ON u.id = a.account_id"
    pool = "JOIN pool_pool p ON p.id = u.pool_id WHERE p.name = %s AND a.ended_at IS NULL"
    assert world.rows(f"{open_attempts} {pool}", [name]) == [(0,)]
    assert world.held(name)[1] == 0


def shown(world: World) -> dict[tuple[str, str], int]:
    """What /metrics says of the pool, without noughts."""
    text = httpx.get(f"{world.berth.run['web_url']}/metrics").text
    found = {(name.removeprefix("berth_"), state): int(value) for name, state, value in GAUGE.findall(text)}
    return {key: value for key, value in found.items() if value}


def test_a_payload_or_a_type_that_was_corrupted_fails_its_own_job_with_a_reason(world: World) -> None:
    """Written past Berth, while the jobs wait behind one that runs."""
    name, other = "corrupted", "unknown adapter"
    first = [world.submit(each, 1.5) for each in (name, other)]
    wait_for(lambda: len(world.executions(first)) == 2)
    accept = "UPDATE pool_pool SET accepting = %s WHERE name = ANY (%s)"
    world.rows(accept, [False, [name, other]])  # else the others might begin, where the machine is slow
    bad, good = world.submit(name), world.submit(name)
    lost = world.submit(other)
    world.rows("UPDATE jobs_job SET payload = %s WHERE id = %s", [json.dumps("no object"), bad])
    world.rows("UPDATE pool_pool SET upstream = upstream || %s WHERE name = %s", ['{"adapter": "gone"}', other])
    world.rows(accept, [True, [name, other]])

    broken, fine = world.ended(name, [bad, good])
    assert (broken["state"], fine["state"]) == ("failed", "completed")
    assert "" not in (broken["error"]["code"], broken["error"]["message"])
    world.ended(name, first[:1])
    (unserved,) = world.ended(other, [lost])
    assert (unserved["state"], unserved["attempts"]) == ("failed", 3), "another worker may have it"
    assert (unserved["error"]["code"], unserved["error"]["retryable"]) == ("adapter_missing", True)
    assert world.executions([bad, lost]) == []
    assert (world.sessions(name), world.held(name)[1]) == ({"available": 1}, 0)
    world.rows("UPDATE pool_pool SET upstream = upstream - 'adapter' WHERE name = %s", [other])
