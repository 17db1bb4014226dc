"""`python -m tests.races --rounds 1000`: every kind of race on servers of its own, then the audit; prints who won."""

import argparse
import os
import sys

from tests.servers import ServersOfTheRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the jitter, and of what the upstream says")
    parser.add_argument("--kind", default="", help="only kinds whose name has this in it")
    options = parser.parse_args()
    os.environ.setdefault("LOG_LEVEL", "ERROR")  # each round has its warnings
    servers = ServersOfTheRun()  # before anything reads the settings
    try:
        return _races(options)
    finally:
        servers.stop()


def _races(options: argparse.Namespace) -> int:
    import django

    django.setup()
    from django.core.management import call_command

    from broker_project.audit import audit, breaches
    from tests.races.kinds import KINDS
    from tests.races.rounds import run

    call_command("migrate", verbosity=0)
    wrong = 0
    _say(f"{'race':<37} {'rounds':>6}  {'seconds':>7}  won by")
    for kind in KINDS:
        if options.kind not in kind.name:
            continue
        tally = run(kind(), options.rounds, options.seed)
        winners = ", ".join(f"{side} {wins}" for side, wins in tally.won.items())
        _say(f"{tally.name:<37} {tally.rounds:>6}  {tally.seconds:>7.1f}  {winners}")
        found = {name: result.rows for name, result in audit().items() if result.count}
        if found or tally.idle():
            _say(f"  breaches: {found}; no race for: {tally.idle()}")
        wrong += breaches(audit()) + len(tally.idle())
    return 1 if wrong else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
