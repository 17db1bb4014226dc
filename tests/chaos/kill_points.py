"""Processes die, or stop for longer than their lease, at each gap between two writes, while the load goes on.

Several points are armed at once, one in each lane; a lane goes on to its next when somebody was hit. A point that nobody
comes by in time is a failure, not a gap in the list.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import httpx

from tests import arming
from tests.chaos import provocations as by
from tests.chaos.experiments import Experiment
from tests.chaos.migrating import killed_while_it_migrates
from tests.chaos.provoking import Prober, Provocation
from tests.chaos.world import LEASE_SECONDS, SWEEP_SECONDS, World

REACHED_SECONDS: Final = 60.0  # for what takes two seconds on a machine that is not busy
LOOK_SECONDS: Final = 0.05
PROVOKE_SECONDS: Final = 0.7
ZOMBIE_SECONDS: Final = LEASE_SECONDS + SWEEP_SECONDS + 0.5
PARTS: Final = 6  # of the list, each an experiment: what a part leaves behind is seen after it
WEB, ASSIGN, ACCOUNT, CALLS, COMMAND = "web", "assign", "transitions", "upstream", "command"


@dataclass(frozen=True)
class Point:
    """A gap, who is expected there, and what brings somebody there when the load does not. `lane`: one of it at a time."""

    name: str
    lane: str
    provoke: Provocation | None = None


POINTS: Final = [
    *(Point(f"submit.{gap}", WEB) for gap in ("parsed", "stored")),
    Point("enter.unannounced", WEB),
    Point("enter.written", WEB, by.with_a_file),
    Point("submit.referred", WEB, by.with_a_file),
    *(Point(f"file.{gap}", WEB, by.with_a_file) for gap in ("counted", "written", "completed")),
    *(Point(f"callback.{gap}", WEB) for gap in ("heard", "noted")),
    Point("told.committed", WEB),
    *(Point(f"cancel.{gap}", WEB, by.cancelled_running) for gap in ("flagged", "committed")),
    *(Point(f"give_up.{gap}", WEB, by.cancelled_waiting) for gap in ("moved", "released")),
    Point("replay.moved", WEB, by.replayed),
    Point("abandon.ended", CALLS, by.cancelled_assigned),
    Point("assign.claimed", ASSIGN),
    *(Point(f"assign.{gap}", ASSIGN, by.paid) for gap in ("taken", "set_aside")),
    Point("assign.parked", ASSIGN, by.expired),
    Point("promote.locked", ASSIGN, by.queued),
    Point("promote.given", ASSIGN, by.queued),
    *(Point(f"publish.{gap}", ASSIGN) for gap in ("begun", "flagged", "sent", "cleared")),
    *(Point(f"dispatch.{gap}", CALLS) for gap in ("moved", "begun", "intended", "sent", "answered")),
    Point("call.received", CALLS),
    *(Point(f"learn.{gap}", CALLS) for gap in ("begun", "noted", "written", "committed")),
    Point("end.ended", CALLS),
    Point("let_go.moved", CALLS),
    Point("release.committed", CALLS),
    *(Point(f"verify.{gap}", CALLS) for gap in ("taken", "answered")),
    Point("verify.fenced", CALLS, by.lost),
    *(Point(f"cancel.{gap}", CALLS, by.cancelled_running) for gap in ("taken", "answered")),
    *(Point(f"doubt.{gap}", CALLS, by.lose_calls) for gap in ("marked", "committed")),
    *(Point(f"result.{gap}", CALLS, by.large) for gap in ("stored", "learned")),
    Point("owe.committed", CALLS, by.linked),
    *(Point(f"fetch.{gap}", CALLS, by.linked) for gap in ("taken", "collected", "paid")),
    Point("fetch.noted", CALLS, by.linked_at_second_try),
    Point("file.left", CALLS, by.linked_in_part),
    *(Point(f"finish.{gap}", ACCOUNT) for gap in ("locked", "settled", "moved", "told", "marked", "charged", "committed")),
    Point("finish.released", ACCOUNT, by.failed),
    Point("come_due.stood", ACCOUNT, by.away),
    Point("redrive.replayed", ACCOUNT, by.redriven),
    *(Point(f"sweep.{gap}", ACCOUNT, by.lose_wakes) for gap in ("found", "done")),
    Point("late.committed", ACCOUNT, by.late),
    *(Point(f"book_late.{gap}", ACCOUNT, by.late) for gap in ("booked", "decided")),
    *(Point(f"apply.{gap}", COMMAND, by.configured) for gap in
      ("pools_made", "accounts_written", "types_written", "tenants_written", "written", "committed")),
    *(Point(f"prepare.{gap}", COMMAND, by.prepared) for gap in ("locked", "migrated", "login_made")),
    *(Point(f"checkpoint.{gap}", COMMAND, by.audited) for gap in ("locked", "replaced")),
    *(Point(f"balance.{gap}", COMMAND, by.balances_asked) for gap in ("said", "taken")),
    *(Point(f"credits.{gap}", COMMAND, by.credits_kept) for gap in ("expired", "granted")),
    Point("allowance.opened", COMMAND, by.credits_kept),
    *(Point(f"clean.{gap}", COMMAND, by.cleaned) for gap in ("prolonged", "deleted", "gone", "forgetting")),
    Point("review.taken", COMMAND, by.reviewed),
    *(Point(f"restored.{gap}", COMMAND, by.restored) for gap in ("jumped", "suspected", "closed")),
    Point("decide.learned", COMMAND, by.decided),
]  # fmt: skip
# What a sound world under load does not come by: holds left open, a day of doubt, a lost probe, a database that went back.
# Each is tried by itself, in tests/jobs/test_dying.py.
ELSEWHERE: Final = (
    *("review.closed", "review.raised", "elect.wanted", "reopen.ended"),
    *("reopen.given_up", "reopen.decided"),
    *("inquire.numbered", "inquire.assigned", "inquire.taken_up"),
)
# Of the short form: where the most would be lost, doubled or leaked if something were wrong.
SHARPEST: Final = (
    *("submit.stored", "enter.unannounced", "publish.cleared", "assign.claimed", "dispatch.intended", "call.received"),
    *("dispatch.answered", "end.ended", "learn.committed", "verify.taken", "finish.settled", "finish.committed"),
)

_probers: "WeakKeyDictionary[World, Prober]" = WeakKeyDictionary()


def hit(world: World, *, points: Sequence[Point], nth: int, kind: signal.Signals) -> None:
    """Each point in turn, the lanes side by side. Fails with those that nobody came by."""
    prober = prober_of(world)
    lanes: dict[str, list[Point]] = {}
    for point in points:
        lanes.setdefault(point.lane, []).append(point)
    with ThreadPoolExecutor(len(lanes)) as side_by_side:
        work = [side_by_side.submit(_lane, prober, lane, nth, kind) for lane in lanes.values()]
    missed = [name for each in work for name in each.result()]
    assert not missed, f"nobody came by {', '.join(missed)} within {REACHED_SECONDS:.0f} s"


def prober_of(world: World) -> Prober:
    """One for each world, declared once."""
    if world not in _probers:
        _probers[world] = Prober(world)
        world.at_end(_probers[world].close)
    return _probers[world]


def experiments() -> list[Experiment]:
    """The whole list: killed at the first and at the second passing, and stopped for longer than the lease."""
    # A command has no lease, and seldom a second passing.
    processes = [point for point in POINTS if point.lane != COMMAND]
    return [
        *_parts(POINTS, "killed", 1, signal.SIGKILL),
        *_parts(processes, "killed at the second passing", 2, signal.SIGKILL),
        *_parts(processes, "stopped for longer than a lease", 1, signal.SIGSTOP),
        *(Experiment(f"prepare killed after {number} migrations", partial(killed_while_it_migrates, after=number))
          for number in (1, 20, 50)),
    ]  # fmt: skip


def named(names: Iterable[str]) -> list[Point]:
    by_name = {point.name: point for point in POINTS}
    return [by_name[name] for name in names]


def _parts(points: Sequence[Point], how: str, nth: int, kind: signal.Signals) -> list[Experiment]:
    """Every PARTSth point of the list, so that each part has some of each lane."""
    parts = [points[number::PARTS] for number in range(PARTS)]
    return [
        Experiment(f"{how} at {', '.join(point.name for point in part)}", partial(hit, points=part, nth=nth, kind=kind))
        for part in parts
    ]


def _lane(prober: Prober, points: Sequence[Point], nth: int, kind: signal.Signals) -> list[str]:
    """The names of those that were missed."""
    return [point.name for point in points if not _is_hit(prober, point, nth, kind)]


def _is_hit(prober: Prober, point: Point, nth: int, kind: signal.Signals) -> bool:
    folder, provoke = prober.world.crashpoints, point.provoke or by.nothing
    before, end, again = len(arming.victims(folder, point.name)), time.monotonic() + REACHED_SECONDS, 0.0
    arming.arm(folder, point.name, nth, kind)
    while len(victims := arming.victims(folder, point.name)) == before:
        if time.monotonic() > end:
            return not arming.disarm(folder, point.name)
        if time.monotonic() >= again:
            again = time.monotonic() + PROVOKE_SECONDS
            _try(prober, provoke)
        time.sleep(LOOK_SECONDS)
    if kind == signal.SIGSTOP:
        prober.world.stopped.add(victims[-1])
        time.sleep(ZOMBIE_SECONDS)
        with suppress(ProcessLookupError):
            os.kill(victims[-1], signal.SIGCONT)
    elif point.lane == COMMAND:  # what a command left behind does not keep the next one from its work
        provoke(prober)
    return True


def _try(prober: Prober, provoke: Callable[[Prober], object]) -> None:
    with suppress(httpx.HTTPError, OSError):  # whom it asks is being killed
        provoke(prober)


EXPERIMENTS: Final = experiments()
