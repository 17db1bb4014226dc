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

from statemachine import crashpoints
from tests.chaos.experiments import Experiment
from tests.chaos.probed import QUEUE
from tests.chaos.provoking import LARGE, Prober, Provocation
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


def nothing(_: Prober) -> None:
    """The load comes by."""


def a_job(prober: Prober, job_type: str = "points swift", **payload: object) -> str:
    return prober.submit(job_type, payload)


def large(prober: Prober) -> None:
    prober.submit("points large", {"echo": LARGE})


def with_a_file(prober: Prober) -> None:
    if file := prober.upload():
        prober.submit("points swift", {"input": {"file": file}})


def linked(prober: Prober) -> None:
    prober.linking.pages["/made"] = (200, {"Content-Type": "text/plain"}, b"made")
    prober.submit("points linked", {"echo": f"{prober.linking.url}/made"})


def linked_at_second_try(prober: Prober) -> None:
    prober.submit("points linked", {"echo": _there_at_second_try(prober)})


def linked_in_part(prober: Prober) -> None:
    """What was stored of a result is given up where the rest does not come."""
    prober.linking.pages["/made"] = (200, {"Content-Type": "text/plain"}, b"made")
    echo = {"here": f"{prober.linking.url}/made", "not yet": _there_at_second_try(prober)}
    prober.submit("points linked", {"echo": echo})


def _there_at_second_try(prober: Prober) -> str:
    page = f"/later-{time.monotonic_ns()}"

    def content() -> bytes:
        prober.linking.pages[page] = (200, {"Content-Type": "text/plain"}, b"made")
        return b"not yet"

    prober.linking.pages[page] = (503, {}, content)
    return prober.linking.url + page


def lost(prober: Prober) -> None:
    """An answer that does not come; the same key is sent again."""
    prober.submit("points swift", {"sim": {"accept_then_drop": True}})


def away(prober: Prober) -> None:
    """Refused once: it goes back to its line."""
    prober.submit("points swift", {"sim": {"fail": {"code": 503}, "times": 1}})


def failed(prober: Prober) -> str:
    job = prober.submit("points swift", {"sim": {"fail": {"code": 422}}})
    return prober.until(job, "failed")


def replayed(prober: Prober) -> None:
    prober.replay(failed(prober))


def redriven(prober: Prober) -> None:
    if failed(prober):
        prober.command("redrive", "--type", "points swift", "--rate", "50/s")


def restored(prober: Prober) -> None:
    """Only to be killed: one that is not jumps all numbers, and closes what the load needs."""
    if list(prober.world.crashpoints.glob("restored.*.1")):
        prober.command("restored")


def cancelled_waiting(prober: Prober) -> None:
    in_an_hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    prober.cancel(prober.submit("points swift", {}, run_at=in_an_hour))


def cancelled_running(prober: Prober) -> None:
    prober.cancel(prober.until(prober.submit("points asked", {"seconds": 8}), "processing"))


def cancelled_assigned(prober: Prober) -> None:
    """Nobody dispatches meanwhile."""
    roles = [name for name in prober.world.pids() if name.endswith("/worker-upstream")]
    pids = [prober.world.send(role, signal.SIGSTOP) for role in roles]
    try:
        prober.cancel(prober.until(prober.submit("points swift", {}), "assigned"))
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def expired(prober: Prober) -> None:
    """No account can pay for it, so it does not start in time."""
    prober.submit("points paid", {"units": 1_000_000}, start_deadline="1s")


def paid(prober: Prober) -> None:
    prober.submit("points paid", {"units": 1})


def queued(prober: Prober) -> None:
    for _ in range(3):
        prober.submit("points swift", {}, tenant=QUEUE)


def late(prober: Prober) -> None:
    prober.submit("points late", {})


def lose_calls(prober: Prober) -> None:
    prober.send("worker-upstream", signal.SIGKILL)


def lose_wakes(prober: Prober) -> None:
    prober.send("worker-assign", signal.SIGKILL)


def decided(prober: Prober) -> None:
    job = prober.submit("points unknown", {"sim": {"accept_then_drop": True}})
    if prober.until(job, "processing"):
        prober.python(f"""
from uuid import UUID
import time
from jobs.decisions import NothingToDecide, Word, decide
for _ in range(50):
    try:
        decide(UUID("{job}"), Word(True, "somebody looked", "operator", 1.0))
        break
    except NothingToDecide:
        time.sleep(0.1)
""")


def reviewed(prober: Prober) -> None:
    """As if an hour had passed, for a job that runs."""
    prober.until(prober.submit("points asked", {"seconds": 5}), "processing")
    prober.world.rows(
        "SET LOCAL session_replication_role = replica;"
        " UPDATE credits_hold SET created_at = created_at - interval '2 hours'"
    )
    prober.python("from jobs.reviews import review; review()")


def balances_asked(prober: Prober) -> None:
    prober.command("reconcile_account", "--ask", "points paid/points-paid")


def audited(prober: Prober) -> None:
    prober.command("audit", "--since-checkpoint")


def configured(prober: Prober) -> None:
    prober.change()


def prepared(prober: Prober) -> None:
    prober.command("prepare")


def credits_kept(prober: Prober) -> None:
    prober.python("""
from credits import allowances
from jobs import tasks
from tenants.models import Tenant
tenant = Tenant.objects.get(name="queuer").pk
allowances.add(tenant, 1_000_000, "day", category="promo", priority=50, lifetime_seconds=None,
               after=allowances.newest_of(tenant))
tasks.keep_credits()
""")


def cleaned(prober: Prober) -> None:
    """Some files have expired, some are long forgotten."""
    for days in (0, 40):
        if file := prober.upload():
            prober.world.rows(
                "UPDATE files_file SET expires_at = clock_timestamp() - interval '1 hour' WHERE id = %s", file
            )
            if days:
                prober.python("from jobs.keeping import clean_files; clean_files()")
                prober.world.rows(
                    "UPDATE files_file SET gone_at = gone_at - make_interval(days => %s) WHERE gone_at IS NOT NULL",
                    days,
                )
    prober.python("from jobs.keeping import clean_files; clean_files()")


POINTS: Final = [
    *(Point(f"submit.{gap}", WEB) for gap in ("parsed", "stored")),
    Point("enter.unannounced", WEB),
    Point("enter.written", WEB, with_a_file),
    Point("submit.referred", WEB, with_a_file),
    *(Point(f"file.{gap}", WEB, with_a_file) for gap in ("counted", "written", "completed")),
    *(Point(f"callback.{gap}", WEB) for gap in ("heard", "noted")),
    Point("told.committed", WEB),
    *(Point(f"cancel.{gap}", WEB, cancelled_running) for gap in ("flagged", "committed")),
    *(Point(f"give_up.{gap}", WEB, cancelled_waiting) for gap in ("moved", "released")),
    Point("replay.moved", WEB, replayed),
    Point("abandon.ended", CALLS, cancelled_assigned),
    Point("assign.claimed", ASSIGN),
    *(Point(f"assign.{gap}", ASSIGN, paid) for gap in ("taken", "set_aside")),
    Point("assign.parked", ASSIGN, expired),
    Point("promote.locked", ASSIGN, queued),
    Point("promote.given", ASSIGN, queued),
    *(Point(f"publish.{gap}", ASSIGN) for gap in ("begun", "flagged", "sent", "cleared")),
    *(Point(f"dispatch.{gap}", CALLS) for gap in ("moved", "begun", "intended", "sent", "answered")),
    Point("call.received", CALLS),
    *(Point(f"learn.{gap}", CALLS) for gap in ("begun", "noted", "written", "committed")),
    Point("end.ended", CALLS),
    Point("let_go.moved", CALLS),
    Point("release.committed", CALLS),
    *(Point(f"verify.{gap}", CALLS) for gap in ("taken", "answered")),
    Point("verify.fenced", CALLS, lost),
    *(Point(f"cancel.{gap}", CALLS, cancelled_running) for gap in ("taken", "answered")),
    *(Point(f"doubt.{gap}", CALLS, lose_calls) for gap in ("marked", "committed")),
    *(Point(f"result.{gap}", CALLS, large) for gap in ("stored", "learned")),
    Point("owe.committed", CALLS, linked),
    *(Point(f"fetch.{gap}", CALLS, linked) for gap in ("taken", "collected", "paid")),
    Point("fetch.noted", CALLS, linked_at_second_try),
    Point("file.left", CALLS, linked_in_part),
    *(Point(f"finish.{gap}", ACCOUNT) for gap in ("locked", "settled", "moved", "told", "marked", "charged", "committed")),
    Point("finish.released", ACCOUNT, failed),
    Point("come_due.stood", ACCOUNT, away),
    Point("redrive.replayed", ACCOUNT, redriven),
    *(Point(f"sweep.{gap}", ACCOUNT, lose_wakes) for gap in ("found", "done")),
    Point("late.committed", ACCOUNT, late),
    *(Point(f"book_late.{gap}", ACCOUNT, late) for gap in ("booked", "decided")),
    *(Point(f"apply.{gap}", COMMAND, configured) for gap in
      ("pools_made", "accounts_written", "types_written", "tenants_written", "written", "committed")),
    *(Point(f"prepare.{gap}", COMMAND, prepared) for gap in ("locked", "migrated", "login_made")),
    *(Point(f"checkpoint.{gap}", COMMAND, audited) for gap in ("locked", "replaced")),
    *(Point(f"balance.{gap}", COMMAND, balances_asked) for gap in ("said", "taken")),
    *(Point(f"credits.{gap}", COMMAND, credits_kept) for gap in ("expired", "granted")),
    Point("allowance.opened", COMMAND, credits_kept),
    *(Point(f"clean.{gap}", COMMAND, cleaned) for gap in ("prolonged", "deleted", "gone", "forgetting")),
    Point("review.taken", COMMAND, reviewed),
    *(Point(f"restored.{gap}", COMMAND, restored) for gap in ("jumped", "suspected", "closed")),
    Point("decide.learned", COMMAND, decided),
]  # fmt: skip
# What a sound world under load does not come by: holds left open, a day of doubt, a lost probe, a database that went back.
# Each is tried by itself, in tests/jobs/test_dying.py.
ELSEWHERE: Final = (
    *("review.closed", "review.raised", "elect.wanted", "reopen.given_up", "reopen.decided"),
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
    return _probers[world]


def experiments() -> list[Experiment]:
    """The whole list: killed at the first and at the second passing, and stopped for longer than the lease."""
    by_commands = [point for point in POINTS if point.lane == COMMAND]
    stopped = [point for point in POINTS if point not in by_commands]  # a command has no lease to lose
    return [
        *_parts(POINTS, "killed", 1, signal.SIGKILL),
        *_parts(
            [point for point in POINTS if point not in by_commands],
            "killed at the second passing of",
            2,
            signal.SIGKILL,
        ),
        *_parts(stopped, "stopped for longer than a lease", 1, signal.SIGSTOP),
    ]


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
    folder, provoke = prober.world.crashpoints, point.provoke or nothing
    before, end, again = len(crashpoints.victims(folder, point.name)), time.monotonic() + REACHED_SECONDS, 0.0
    crashpoints.arm(folder, point.name, nth, kind)
    while len(victims := crashpoints.victims(folder, point.name)) == before:
        if time.monotonic() > end:
            return not crashpoints.disarm(folder, point.name)
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
