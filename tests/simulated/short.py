"""The short form, which each run of the tests takes: some seeds, some bugs, one seed twice."""

import time
from typing import Any

from tests.simulated import regressions
from tests.simulated.bugs import sown
from tests.simulated.runner import Runner

SEEDS = range(24)
BUGS = ("fence removed", "session freed at time-out", "publish before commit")
TWICE = 12


def short(runner: Runner) -> dict[str, Any]:
    """What was found, as JSON."""
    begun = time.monotonic()
    found = [f"seed {each.seed}: {each.what}" for each in runner.run(SEEDS)]
    bugs = {}
    for name in BUGS:
        with sown(name):
            each = runner.one(regressions.FOUND_BY[name])
        bugs[name] = each.what if each else ""
    # Once among others, once by itself, as whoever looks at it runs it.
    found += [f"seed {each.seed}: {each.what}" for each in runner.run([*regressions.SEEDS, TWICE])]
    traces = ["\n".join(runner.trace)]
    runner.one(TWICE)
    traces.append("\n".join(runner.trace))
    return {"found": found, "bugs": bugs, "traces": traces, "seconds": round(time.monotonic() - begun, 1)}
