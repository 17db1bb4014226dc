"""The sharpest faults, one upon the other under load, in a single world: the short form of `make chaos`."""

from functools import partial

import pytest

from tests.chaos.experiments import Experiment
from tests.chaos.faults_of_lines import fail
from tests.chaos.faults_of_processes import awake_too_late, kill
from tests.chaos.faults_of_servers import empty_redis, storm
from tests.chaos.judging import Outcome, drained, judge
from tests.chaos.watch import steady, watched
from tests.chaos.world import LEASE_SECONDS, World

pytestmark = pytest.mark.processes

SECONDS = 2.0
ANSWERS = ("client-web", "workers-upstream", "workers-strict")
SHARPEST = [
    Experiment(
        "the answers to submits and of upstreams are lost",
        partial(fail, names=ANSWERS, kind="after", lasts=SECONDS, directions=("back",), measures={"bytes": 0}),
    ),
    Experiment("a storm over Postgres' connections", partial(storm, lasts=SECONDS)),
    Experiment("the worker of upstreams killed", partial(kill, roles=("workers/worker-upstream",))),
    Experiment("and Redis emptied", partial(empty_redis, lasts=SECONDS)),
    Experiment(
        "a worker that wakes when its lease is over",
        partial(awake_too_late, role="workers/worker-assign", lasts=LEASE_SECONDS + 1.0),
    ),
]


def test_the_sharpest_faults_lose_double_and_leak_nothing(chaos: World) -> None:
    chaos.load.begin()
    before = steady(chaos)
    with watched(chaos) as sessions:
        with sessions.excused():
            for experiment in SHARPEST:
                experiment.run(chaos)
        judge(chaos, sessions, outcome := Outcome("all of them"), before, alone=False)
        assert outcome.violations == []
        assert drained(chaos, sessions).violations == []
