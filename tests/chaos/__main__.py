"""`python -m tests.chaos`: experiments under load, as many as the minutes allow; exit 1 when anything was broken.

python -m tests.chaos --seed 7 --minutes 14            # a world with one group of workers, then one with three
python -m tests.chaos --full                           # everything in both
python -m tests.chaos --only "Redis|killed" --groups 3 # those whose name has one of these in it, in one world
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import upgrade
from tests.chaos.experiments import in_turns
from tests.chaos.families import FAMILIES
from tests.chaos.judging import Outcome, run, tell
from tests.chaos.world import World

END_SECONDS = 60.0  # that the drain and the referee may take, of the minutes
LEAST_MINUTES = 5.0  # for an upgrade, which wants a world of its own


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C does, it leaves no process behind
    home = Path(tempfile.mkdtemp(prefix="berth-chaos-", dir=options.folder))
    home.chmod(0o711)  # the database may run as another user, who must pass
    tell(f"Seed {options.seed}; the data and logs stand in {home}")
    end = time.monotonic() + (float("inf") if options.full else 60 * options.minutes)
    outcomes: list[Outcome] = []
    if options.only.search(upgrade.NAME) and (options.full or options.minutes >= LEAST_MINUTES):
        outcomes += _upgraded(home / "upgrade", options.seed)
    for number, groups in enumerate(options.groups):
        now = time.monotonic()
        share = now + (end - now) / (len(options.groups) - number)
        outcomes += _in_a_world(home / f"groups-{groups}", groups, share, options)
    broken = [outcome for outcome in outcomes if outcome.violations]
    tell(f"{len(outcomes)} experiments with seed {options.seed}, {len(broken)} of them with violations")
    return 1 if broken else 0


def _upgraded(home: Path, seed: int) -> list[Outcome]:
    try:
        outcome = upgrade.run(home, seed)
    except upgrade.NoHistory as why:
        tell(f"{upgrade.NAME}: left out, there is no older version here: {why}")
        return []
    tell(outcome.line())
    return [outcome]


def _in_a_world(home: Path, groups: int, end: float, options: argparse.Namespace) -> list[Outcome]:
    wanted = {
        family: [each for each in experiments if options.only.search(each.name)]
        for family, experiments in FAMILIES.items()
    }
    if not any(wanted.values()):
        return []
    home.mkdir(mode=0o711)
    with World(home, groups=groups, seed=options.seed) as world:
        tell(f"Workers in {groups} group{'s' if groups > 1 else ''}:")
        return run(world, in_turns(wanted, f"{options.seed} {groups}"), end - time.monotonic() - END_SECONDS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests.chaos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of experiments, and of the load")
    parser.add_argument("--minutes", type=float, default=14.0, help="for all of it")
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 3], help="of workers; a world for each")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="a pattern: those whose name has it")
    parser.add_argument("--full", action="store_true", help="all experiments, whatever time they take")
    parser.add_argument("--folder", type=Path, help="where the data and logs are put (default: the system's for such)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
