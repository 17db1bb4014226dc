"""One function for each way to bring somebody to a gap: jobs that fail, wait, run late, are lost or large, and commands."""

import os
import signal
import time
from contextlib import suppress

from tests.chaos.probed import QUEUE
from tests.chaos.provoking import LARGE, Prober

WAITING_SECONDS = 15


def nothing(_: Prober) -> None:
    """The load comes by."""


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
        prober.command("redrive", "--type", "points swift", "--rate", "50/s", "--why", "chaos")


def restored(prober: Prober) -> None:
    """Only to be killed: one that is not jumps all numbers, and closes what the load needs."""
    if list(prober.world.crashpoints.glob("restored.*.1")):
        prober.command("restored", "--while-running")


def cancelled_waiting(prober: Prober) -> None:
    """Long enough to be cancelled before it begins; and if the wish is lost, it runs."""
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + WAITING_SECONDS))
    prober.cancel(prober.submit("points swift", {}, run_at=soon))


def cancelled_running(prober: Prober) -> None:
    job = prober.submit("points asked", {"seconds": 4})
    prober.until(job, "processing")
    prober.cancel(job)  # also one that does not run yet, or many would stand before the next


def cancelled_assigned(prober: Prober) -> None:
    """Nobody dispatches meanwhile."""
    roles = [name for name in prober.world.pids() if name.endswith("/worker-upstream")]
    pids = [prober.world.send(role, signal.SIGSTOP) for role in roles]
    try:
        prober.cancel(prober.until(prober.submit("points swift", {}), "assigned", seconds=4))
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
    """Who calls is killed in the middle of a call, and not again before its lease is over and swept."""
    if prober.may_kill_again() and prober.until(prober.submit("points swift", {"seconds": 3}), "processing"):
        prober.kill("worker-upstream")


def lose_wakes(prober: Prober) -> None:
    if prober.may_kill_again():
        prober.kill("worker-assign")


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
