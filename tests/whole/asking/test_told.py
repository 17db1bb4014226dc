"""Callbacks over HTTP: early, doubled, out of order and missing ones; cancels that are slow or ignored; polls that hang."""

import os
import signal
from typing import Any

import httpx
import pytest

from tests.whole.asking.world import CALLED_BACK, CANCEL, POLL, POLLED, World, world
from tests.whole.running import Running, ended, wait_for

pytestmark = pytest.mark.processes
SAYS = {name: POLL[name] for name in ("running", "success", "failed", "progress", "result", "units")}
CALLBACK = {"reference": "response.body.id"}
ONLY_TOLD = {"mode": "callback", "submit": CALLED_BACK, "callback": {**CALLBACK, **SAYS}}
CONFIRMED = {"mode": "callback", "submit": CALLED_BACK, "poll": {**POLL, "fallback": "3s"}, "callback": CALLBACK}
ODD: list[dict[str, Any]] = [
    {"early_callback": True},
    {"dup_callback": 5},
    {"out_of_order": True},
    {"late_callback": "1s"},
    {},
]


@pytest.mark.parametrize(("name", "upstream"), [("only told", ONLY_TOLD), ("told and asked", CONFIRMED)])
def test_odd_callbacks_move_a_job_once(berth: Running, name: str, upstream: dict[str, object]) -> None:
    with world(berth, name, upstream, "--latency", "200ms", accounts=len(ODD), max_runtime="30s") as made:
        jobs = [made.ended(made.submit(**odd)) for odd in ODD]
        assert [(job["state"], job["credits"]["charged"], job["attempts"]) for job in jobs] == [
            ("completed", "3.000000", 1)
        ] * len(ODD)
        assert [len(made.executions(job["id"])) for job in jobs] == [1] * len(ODD)
        moves = [made.client.get(f"/v1/jobs/{job['id']}/moves").json()["data"] for job in jobs]
        assert [[move["to"] for move in each].count("completed") for each in moves] == [1] * len(ODD)


def test_a_forged_callback_is_not_found(berth: Running) -> None:
    with world(berth, "forged", ONLY_TOLD) as made:
        job_id = made.submit(no_callback=True)
        wait_for(lambda: made.job(job_id)["phase"] == "accepted")
        address = f"{berth.run['web_url']}/v1/upstream/job.{job_id}.a1"
        body = {"id": made.executions(job_id)[0]["id"], "status": "done", "units": 3}
        assert {httpx.post(f"{address}/{token}", json=body).status_code for token in ("x", "0" * 64)} == {404}
        assert made.job(job_id)["state"] == "processing"
        assert made.ended(job_id)["error"]["code"] == "outcome_unknown"


def test_callbacks_that_do_not_come_are_made_up_for_by_polls(berth: Running) -> None:
    """A third of them is never sent, and the others meet a web process that is away for a while."""
    with world(berth, "not told", CONFIRMED, "--latency", "500ms", accounts=30, max_runtime="1m") as made:
        ids = {made.submit(**({"no_callback": True} if n % 3 == 0 else {})) for n in range(30)}
        os.kill(berth.pid("web"), signal.SIGKILL)
        wait_for(lambda: _answers(made))
        jobs = wait_for(lambda: ended(made.client, ids))
        assert {job["state"] for job in jobs} == {"completed"}


def test_a_cancel_that_is_ignored_keeps_the_session_and_what_was_done_is_charged(berth: Running) -> None:
    with world(berth, "ignores cancels", {**POLLED, "cancel": CANCEL}, max_runtime="30s") as made:
        job_id = made.submit(finish_late="4s", cancel_ignored=True)
        wait_for(lambda: made.job(job_id)["phase"] == "accepted")
        assert made.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
        wait_for(lambda: made.report()["cancels"] == 1)
        assert (made.job(job_id)["cancel_requested"], made.sessions()["busy"]) == (True, 1)
        job = made.ended(job_id)
        assert (job["state"], job["credits"]["charged"]) == ("completed", "3.000000")


def test_a_cancel_that_takes_its_time_keeps_the_session_until_it_is_done(berth: Running) -> None:
    with world(berth, "cancels slowly", {**POLLED, "cancel": CANCEL}, max_runtime="30s") as made:
        job_id = made.submit(seconds=25, cancel_slow="2s")
        wait_for(lambda: made.job(job_id)["phase"] == "accepted")
        made.client.post(f"/v1/jobs/{job_id}/cancel")
        wait_for(lambda: made.report()["cancels"] == 1)
        assert made.sessions()["busy"] == 1
        job = made.ended(job_id, 10)
        assert (job["state"], job["credits"]["charged"], job["error"]["code"]) == ("cancelled", "0.000000", "cancelled")
        assert made.executions(job_id)[0]["outcome"] == "cancelled"


def test_polls_that_hang_delay_no_others(berth: Running) -> None:
    with world(berth, "hanging polls", POLLED, "--latency", "1s", accounts=40, max_runtime="30s") as made:
        hanging = {made.submit(hang_poll="10s") for _ in range(10)}
        others = {made.submit() for _ in range(30)}
        wait_for(lambda: ended(made.client, others), 10)
        assert {made.job(job_id)["state"] for job_id in hanging} == {"processing"}


def _answers(made: World) -> bool:
    try:
        return made.client.get("/v1/balance").status_code == 200
    except httpx.HTTPError:
        return False
