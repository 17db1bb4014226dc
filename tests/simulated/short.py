"""The short form, which each run of the tests takes: some seeds, some bugs, one seed twice."""

import time
from typing import Any

from tests.simulated.bugs import sown
from tests.simulated.runner import Runner

SEEDS = range(40)
# Each with the first seed that finds it; as `docs/simulated.md` has them.
BUGS: dict[str, int] = {}
TWICE = 12


def short(runner: Runner) -> dict[str, Any]:
    """What was found, as JSON."""
    begun = time.monotonic()
    found = [f"seed {each.seed}: {each.what}" for each in runner.run(SEEDS)]
    bugs = {}
    for name, seed in BUGS.items():
        with sown(name):
            each = runner.one(seed)
        bugs[name] = each.what if each else ""
    traces = []
    for _ in range(2):
        runner.one(TWICE)
        traces.append("\n".join(runner.trace))
    return {"found": found, "bugs": bugs, "traces": traces, "seconds": round(time.monotonic() - begun, 1)}
