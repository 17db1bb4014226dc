"""`python -m tests.races.over_http --rounds 1000`: cancels over HTTP around the instant at which a job starts.

A cancel that says "cancelled" is kept: the upstream's own book shows no start of that job. Any other answer is followed by
the end that the upstream made of it.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.whole.running import Running, ended, simulator, wait_for
from tests.whole.test_stories import config, credentials

SESSIONS, PROGRAMS = 2, 8  # so that most jobs wait for a session, and start some time after their submit
AROUND_SECONDS, STEP_SECONDS = 0.05, 0.005
SHORTEST_SECONDS, LONGEST_JOB_SECONDS, GROWTH = 0.05, 2.0, 1.25
NAME = "cancelled around its start"
LONGEST_SECONDS = 60


@dataclass(frozen=True)
class Cancelled:
    """A job, what the cancel was answered (its state), and when the answer was there (seconds since the epoch)."""

    job_id: str
    state: str
    status: int
    at: float


class Meeting:
    """When to cancel (`start`, seconds after the submit's answer), so that as many come before the start as after it.

    Where jobs start sooner than a cancel can come, they take longer, so that others wait for them.
    """

    def __init__(self) -> None:
        self.start, self.job_seconds = AROUND_SECONDS, SHORTEST_SECONDS

    def was(self, *, early: bool) -> None:
        if early:
            self.start += STEP_SECONDS
            self.job_seconds = max(SHORTEST_SECONDS, self.job_seconds / GROWTH)
        elif self.start > 0:
            self.start = max(0.0, self.start - STEP_SECONDS)
        else:
            self.job_seconds = min(LONGEST_JOB_SECONDS, self.job_seconds * GROWTH)


def race(berth: Running, rounds: int, seed: int) -> Counter[str]:
    """So many jobs, cancelled at random times around their start; how many cancels said what."""
    with simulator("--accounts", str(SESSIONS)) as url:
        tenants: dict[str, Any] = {NAME: {"credits": 2 * rounds}}
        berth.apply(config(NAME, url, SESSIONS, tenants), **credentials(SESSIONS))
        with berth.client(NAME) as client:
            cancelled = _submit_and_cancel(client, rounds, random.Random(seed))
            jobs = wait_for(lambda: ended(client, {each.job_id for each in cancelled}), LONGEST_SECONDS)
            book = httpx.get(f"{url}/book", params={"limit": 10 * rounds}).json()
            _judge(cancelled, {job["id"]: job for job in jobs}, book)
            posted = float(client.get("/v1/balance").json()["posted"])
        figures = httpx.get(f"{url}/report").json()
    assert (figures["overlaps"], figures["double_executions"]) == (0, 0)
    assert posted == 2 * rounds - figures["executions"], "what was done is charged, a credit each, and nothing else"
    return Counter(each.state for each in cancelled)


def _submit_and_cancel(client: httpx.Client, rounds: int, dice: random.Random) -> Sequence[Cancelled]:
    meeting = Meeting()

    def one(offset: float) -> Cancelled:
        body = {"type": NAME, "payload": {"seconds": meeting.job_seconds}}
        job_id = str(client.post("/v1/jobs", json=body).json()["id"])
        time.sleep(max(0.0, meeting.start + offset))
        answer = client.post(f"/v1/jobs/{job_id}/cancel")
        state = answer.json()["state"]
        meeting.was(early=state == "cancelled")
        return Cancelled(job_id, state, answer.status_code, time.time())

    with ThreadPoolExecutor(PROGRAMS) as programs:
        return list(programs.map(one, [dice.uniform(-1, 1) * AROUND_SECONDS for _ in range(rounds)]))


def _judge(cancelled: Sequence[Cancelled], jobs: dict[str, dict[str, Any]], book: list[dict[str, Any]]) -> None:
    started = {line["reference"].removeprefix("job."): line["start"] for line in book if line["start"]}
    for each in cancelled:
        job = jobs[each.job_id]
        assert job["credits"]["held"] == "0.000000", job
        if each.state == "cancelled":
            assert (each.status, job["state"], job["credits"]["charged"]) == (200, "cancelled", "0.000000"), job
            assert each.job_id not in started, f"{each} was started at {started[each.job_id]}"
        else:  # a wish, or too late: this upstream does not cancel, so what was started is done
            assert each.status == (202 if each.state == "processing" else 200), each
            assert (job["state"], each.job_id in started) == ("completed", True), job


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.races.over_http", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="berth-races-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o711)
        Path(folder).chmod(0o711)  # the database may run as another user, who must pass
        berth = Running(home)
        try:
            begun = time.monotonic()
            said = race(berth, options.rounds, options.seed)
            breaches = berth.audit_breaches()
            took = f"{options.rounds} cancels in {time.monotonic() - begun:.1f} s"
            sys.stdout.write(f"{took}, answered: {dict(said)}; breaches: {breaches}\n")
        finally:
            berth.stop()
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
