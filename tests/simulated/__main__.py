"""`python -m tests.simulated`: seeds, one seed with its trace, or the seeded bugs."""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

from tests.servers import ServersOfTheRun

SHOWN_EACH = 250  # seeds
say = partial(print, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulated", description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="from:to")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print what happened, in its order")
    parser.add_argument("--bugs", nargs="*", help="sow these bugs, or all, one after the other: each must be found")
    parser.add_argument("--short", action="store_true", help="what each run of the tests takes; prints JSON")
    parser.add_argument("--processes", type=int, default=1, help="so many at once, with servers of their own")
    parser.add_argument("--most", type=int, default=400, help="seeds in which a bug is looked for")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts have an order of their own in each process otherwise
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulated", *sys.argv[1:]])  # noqa: S606
    if arguments.processes > 1:
        return _side_by_side(arguments.seeds, arguments.processes)
    servers = ServersOfTheRun()
    try:
        import django

        django.setup()
        return _run(arguments)
    finally:
        servers.stop()


def _run(arguments: argparse.Namespace) -> int:
    from tests.simulated.runner import Runner

    with Runner() as runner:
        if arguments.seed is not None:
            found = runner.one(arguments.seed)
            if arguments.trace or found:
                say("\n".join(runner.trace))
            say(found.what if found else f"seed {arguments.seed}: nothing found")
            return int(found is not None)
        if arguments.short:
            from tests.simulated.short import short

            say(json.dumps(short(runner)))
            return 0
        if arguments.bugs is not None:
            return _sow(runner, arguments.bugs, arguments.most)
        first, last = map(int, arguments.seeds.split(":"))
        begun, count = time.monotonic(), 0
        for start in range(first, last, SHOWN_EACH):
            end = min(start + SHOWN_EACH, last)
            for found in runner.run(range(start, end)):
                count += 1
                say(f"seed {found.seed}: {found.what}")
            say(f"seeds {first} to {end - 1}: {count} with a breach, {time.monotonic() - begun:.0f} s")
        return int(count > 0)


def _side_by_side(seeds: str, count: int) -> int:
    """Each takes a part of the seeds."""
    first, last = map(int, seeds.split(":"))
    bounds = [first + (last - first) * number // count for number in range(count + 1)]
    parts = [f"{begin}:{end}" for begin, end in itertools.pairwise(bounds)]
    running = [subprocess.Popen([sys.executable, "-m", "tests.simulated", "--seeds", part]) for part in parts]
    return max([process.wait() for process in running])


def _sow(runner: Any, names: list[str], most: int) -> int:
    from tests.simulated.bugs import BUGS, sown
    from tests.simulated.regressions import FOUND_BY

    missed = 0
    for name in names or BUGS:
        begun = time.monotonic()
        with sown(name):
            found = runner.one(FOUND_BY[name]) if name in FOUND_BY else None
            found = found or next(runner.run(range(most)), None)
        runner.empty()
        missed += found is None
        told = f"seed {found.seed}: {found.what[:150]}" if found else f"NOT FOUND in {most} seeds"
        say(f"{name:<28} {time.monotonic() - begun:5.0f} s  {told}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
