"""`python -m tests.simulated`: seeds, one seed with its trace, or the seeded bugs."""

import argparse
import os
import sys
import time
from typing import Any

from tests.servers import ServersOfTheRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulated", description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="from:to")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print what happened, in its order")
    parser.add_argument("--bugs", nargs="*", help="sow these bugs, or all, one after the other: each must be found")
    parser.add_argument("--most", type=int, default=400, help="seeds in which a bug is looked for")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts have an order of their own in each process otherwise
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulated", *sys.argv[1:]])
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
                print("\n".join(runner.trace))
            print(found.what if found else f"seed {arguments.seed}: nothing found")
            return int(found is not None)
        if arguments.bugs is not None:
            return _sow(runner, arguments.bugs, arguments.most)
        first, last = map(int, arguments.seeds.split(":"))
        begun, count = time.monotonic(), 0
        for found in runner.run(range(first, last)):
            count += 1
            print(f"seed {found.seed}: {found.what}", flush=True)
        seconds = time.monotonic() - begun
        print(f"{last - first} seeds in {seconds:.0f} s, {seconds / max(1, last - first):.3f} s each; {count} with a breach")
        return int(count > 0)


def _sow(runner: Any, names: list[str], most: int) -> int:
    from tests.simulated.bugs import BUGS, sown

    missed = 0
    for name in names or BUGS:
        begun = time.monotonic()
        with sown(name):
            found = next(iter(runner.run(range(most))), None)
        runner.empty()
        missed += found is None
        told = f"seed {found.seed}: {found.what[:150]}" if found else f"NOT FOUND in {most} seeds"
        print(f"{name:<28} {time.monotonic() - begun:5.0f} s  {told}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
