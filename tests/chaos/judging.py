"""Runs experiments one after the other in one world under load, and says of each what was broken by it."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.experiments import Experiment
from tests.chaos.watch import RECOVERY_SECONDS, Sessions, recovered_after, steady, watched
from tests.chaos.world import World
from tests.whole.running import wait_for

BACK_SECONDS: Final = 60.0
# Refused where the credits are short, for the moment, or because the same key is being worked on; nothing newer, or another
# tenant's (the referee says which may be); or not answered at all.
EXCUSED: Final = (200, 202, 304, 402, 404, 409, 429, 503, None)


@dataclass
class Outcome:
    """What one experiment came to: jobs that ended from its begin to the recovery, seconds to that, what was broken."""

    name: str
    jobs: int = 0
    recovery_seconds: float | None = None
    violations: list[str] = field(default_factory=list)

    def line(self) -> str:
        back = "never" if self.recovery_seconds is None else f"{self.recovery_seconds:4.1f} s"
        broken = "".join(f"\n    {violation}" for violation in self.violations)
        return f"{self.name:<62} {self.jobs:5d} jobs  back after {back:>6}  {len(self.violations)} violations{broken}"


def run(world: World, experiments: Iterable[Experiment], seconds: float = float("inf")) -> list[Outcome]:
    """Those that can begin within `seconds`, then the drain and the referee; each told as it ends."""
    outcomes, end = [], time.monotonic() + seconds
    world.load.begin()
    before = steady(world)  # of all, so that nothing that gets less from fault to fault stays unseen
    with watched(world) as sessions:
        for experiment in experiments:
            if time.monotonic() > end:
                break
            outcomes.append(_tried(world, experiment, sessions, before))
            tell(outcomes[-1].line())
        outcomes.append(drained(world, sessions))
    tell(outcomes[-1].line())
    return outcomes


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def drained(world: World, sessions: Sessions) -> Outcome:
    """What is left after it all: nothing, if the audit and the referee say so."""
    from tests.referee import violations

    outcome, began = Outcome("drained: the audit and the referee", _ended(world)), time.monotonic()
    world.drain()
    outcome.recovery_seconds = time.monotonic() - began
    outcome.jobs = _ended(world)
    outcome.violations += [*sessions.take_found(), *_audit(world), *_strange(world)]
    with closing(world.evidence()) as evidence:
        outcome.violations += [f"{each.rule}: {each.what}: {each.rows}" for each in violations(evidence)]
    return outcome


def _tried(world: World, experiment: Experiment, sessions: Sessions, before: float) -> Outcome:
    steady(world)
    ended = _ended(world)
    outcome = Outcome(experiment.name, violations=[f"before it: {found}" for found in sessions.take_found()])
    spared = experiment.spares_others and world.groups > 1
    try:
        with nullcontext() if spared else sessions.excused():
            experiment.run(world)
    except AssertionError as error:  # what it waited for did not come; the others are tried all the same
        outcome.violations.append(str(error))
    judge(world, sessions, outcome, before)
    outcome.jobs = _ended(world) - ended
    return outcome


def judge(world: World, sessions: Sessions, outcome: Outcome, before: float, *, alone: bool = True) -> None:
    """The fault is over: is as much done as before, in time, is no session kept, and what does the audit say?

    It takes as long as a session may be kept, or what is kept would not be seen. `alone`: nothing else wants the
    processors, see `recovered_after`.
    """
    world.calm()
    over = time.monotonic()
    with ThreadPoolExecutor(2) as aside:
        audit = aside.submit(_audit, world)
        looks = aside.submit(_await_looks, world, sessions, over)
        outcome.recovery_seconds = recovered_after(world, before, alone=alone)
        outcome.violations += [*audit.result(), *looks.result()]
    if outcome.recovery_seconds is None:
        outcome.violations.append(f"after {RECOVERY_SECONDS:.0f} s less is done than before: {world.left()}")
    outcome.violations += sessions.take_found()


def _await_looks(world: World, sessions: Sessions, over: float) -> list[str]:
    """Until what the fault left is told; what kept us from seeing it, if anything.

    While no process that makes calls works, nobody can find out about a session: that time does not count.
    """
    try:
        if not world.has_callers():
            with sessions.excused():
                wait_for(world.has_callers, BACK_SECONDS)
        sessions.await_told(over)
    except AssertionError as error:
        return [f"its sessions could not be watched: {error}"]
    return []


def _ended(world: World) -> int:
    return int(world.rows("SELECT count(*) AS n FROM jobs_job WHERE finished_at IS NOT NULL")[0]["n"])


def _strange(world: World) -> list[str]:
    """Answers that no fault excuses, and what nobody thought of, in the logs of the processes."""
    answers = Counter(json.loads(line)["status"] for line in world.client_log.read_text().splitlines())
    said = [f"{count} answers with status {status}" for status, count in answers.items() if status not in EXCUSED]
    logs = [path for name in ("web", "workers*", "new-*") for path in world.home.glob(f"{name}/logs/*.log*")]
    return said + [f"a traceback in {path}" for path in logs if "Traceback" in path.read_text(errors="replace")]


def _audit(world: World) -> list[str]:
    return [f"audit: {rule}: {rows}" for rule, rows in world.servers.audit_breaches().items()]
