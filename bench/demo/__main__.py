"""`python -m bench.demo`: starts the simulator and all of Berth, runs the spike, reports, and stays up on a terminal."""

import argparse
import json
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape

from bench.demo import faults, report, spike
from bench.demo.scenario import own_scenario, scenario_of
from bench.demo.world import World, WorldFailed


def main() -> int:
    options = _options()
    console = Console()
    signal.signal(signal.SIGTERM, _stop)
    scenario = scenario_of(options.config, options) if options.config else own_scenario(options)
    each = f"{options.latency} each, unless its payload says how many seconds"
    console.print(f"[bold]{escape(scenario.announcement)}[/bold] ({each}).", highlight=False)
    world = World(Path(options.home).absolute(), options.port, scenario, options.latency)
    try:
        world.start(console)
        result = _run(world, options, console)
        if options.exit or not sys.stdout.isatty():
            return 0 if result.ok else 1
        console.print(f"Berth stays up at {world.web_url} ; Ctrl-C stops it.")
        while world.alive():
            time.sleep(0.5)
    except KeyboardInterrupt:
        return 130
    except WorldFailed as failure:
        console.print(f"[red]{failure}[/red]", highlight=False)
        return 1
    else:
        return 0 if result.ok else 1
    finally:
        world.stop()


def _run(world: World, options: argparse.Namespace, console: Console) -> report.Report:
    keys = world.issue_keys()
    injected = faults.Faults(options.fault, world, console, options.seed)
    if injected.wanted:
        console.print(f"Faults: {', '.join(options.fault)}; the same again with --seed {options.seed}", highlight=False)
    with injected.injected():
        outcome = spike.run(world, keys, console)
    # Both are asked while the system is up.
    made = report.Report(outcome, world.simulator_report(), world.audit(), world.servers, injected, options.seed)
    path = world.home / "demo-report.json"
    path.write_text(json.dumps(made.as_json(), indent=2) + "\n")
    report.show(made, console)
    console.print(f"The figures are in {path}.", highlight=False)
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--config", type=Path, help="your own file; its upstreams are replaced by the simulator")
    parser.add_argument("--exit", action="store_true", help="end after the report, also on a terminal")
    parser.add_argument("--home", default="var/demo", help="data and report (default: var/demo)")
    parser.add_argument("--port", type=int, default=8000, help="web's port, or the next free one")
    parser.add_argument("--tenants", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=25, help="jobs of each tenant")
    parser.add_argument("--sessions", type=int, default=10, help="sessions of the pool, one to an account")
    parser.add_argument("--latency", default="200ms", help="how long the upstream takes, e.g. 200ms, 1s")
    parser.add_argument("--fault", action="append", default=[], type=faults.known, help=f"{faults.HELP}; repeatable")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of kills:N (default: drawn)")
    return parser.parse_args()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
