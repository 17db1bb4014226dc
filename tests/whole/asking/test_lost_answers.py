"""An answer that is lost is found out: the work is neither done twice nor forgotten, and its session stays its own."""

import os
import signal

import pytest

from tests.whole.asking.world import FIND, POLL, POLLED, SUBMIT, world
from tests.whole.running import Running, wait_for

pytestmark = pytest.mark.processes
FOUND = {"mode": "poll", "submit": SUBMIT, "poll": POLL, "find": FIND}
LATE = {
    "mode": "sync",
    "submit": {
        "path": "'/run'",
        "headers": {"Idempotency-Key": "dispatch_key"},
        "timeout": "1s",
        "success": "response.status == 200 && response.body.status == 'done'",
        "units": "response.body.units",
    },
    "find": {**FIND, **{name: POLL[name] for name in ("running", "success", "failed", "result", "units")}},
}
CUT_OFF = 100  # so many calls at once


def test_our_time_out_ends_our_patience_only(berth: Running) -> None:
    with world(berth, "finishes late", LATE, "--no-idempotency", max_runtime="20s") as made:
        job_id = made.submit(finish_late="3s")
        wait_for(lambda: made.job(job_id)["phase"] == "verifying", 10)
        assert made.sessions()["busy"] == 1
        job = made.ended(job_id)
        assert (job["state"], job["credits"]["charged"], job["attempts"]) == ("completed", "3.000000", 1)
        (line,) = made.executions(job_id)
        assert line["end"] is not None


@pytest.mark.parametrize(("name", "upstream", "arguments"), [
    ("dropped and found", FOUND, ("--no-idempotency",)),
    ("dropped and sent again", POLLED, ()),
])  # fmt: skip
def test_an_answer_that_never_came_is_found_out(
    berth: Running, name: str, upstream: dict[str, object], arguments: tuple[str, ...]
) -> None:
    with world(berth, name, upstream, *arguments) as made:
        job = made.ended(made.submit(accept_then_drop=True))
        assert (job["state"], job["credits"]["charged"], job["attempts"]) == ("completed", "3.000000", 1)
        assert len(made.executions(job["id"])) == 1


def test_what_a_killed_worker_had_sent_is_found_and_not_done_again(berth: Running) -> None:
    """The upstream took each of them, and answers none, when the worker dies."""
    arguments = ("--no-idempotency", "--latency", "200ms")
    with world(berth, "killed", FOUND, *arguments, accounts=CUT_OFF, max_runtime="1m") as made:
        ids = [made.submit(hang=True) for _ in range(CUT_OFF)]
        wait_for(lambda: made.report()["executions"] == CUT_OFF)
        os.kill(berth.pid("worker-upstream"), signal.SIGKILL)
        jobs = [made.ended(job_id) for job_id in ids]
        assert {job["state"] for job in jobs} == {"completed"}
        assert {job["attempts"] for job in jobs} == {1}
        assert made.report()["executions"] == CUT_OFF
        assert made.report()["double_executions"] == 0
