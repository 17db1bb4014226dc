"""The process: how it starts and ends, its book on disk, its report, and that it stands alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from tests.simulator.conftest import ROOT, Caller


def test_accounts_are_declared_at_the_start(own_simulator, tmp_path):
    file = tmp_path / "accounts.json"
    file.write_text(json.dumps([{"name": "big", "credential": "c", "sessions": 5, "balance": 10}]))
    simulator = own_simulator("--accounts", "2", "--sessions", "3", "--accounts-file", str(file))
    lines = simulator.client.get("/control/accounts").json()
    assert [(line["name"], line["sessions"], line["balance"]) for line in lines] == [
        ("big", 5, 10),
        ("acct-001", 3, None),
        ("acct-002", 3, None),
    ]


def test_it_ends_cleanly_with_calls_open_and_its_book_is_whole(own_simulator, tmp_path):
    book = tmp_path / "book.jsonl"
    simulator = own_simulator("--accounts", "1", "--sessions", "2", "--latency", "1ms", "--book", str(book))
    caller = Caller(simulator, "acct-001")
    caller.run({"units": 2}, "job.a1")
    hanging = caller.later({"seconds": 60}, "other.a1")
    caller.wait_until(running=1)
    begun = time.monotonic()
    simulator.process.terminate()
    assert simulator.process.wait(20) == 0
    assert time.monotonic() - begun < 10, "the call takes a minute"
    assert hanging.exception() is not None
    lines = [json.loads(line) for line in book.read_text().splitlines()]
    assert [line["verdict"] for line in lines if line["what"] == "request"] == ["accepted", "accepted"]
    done, running = (line for line in lines if line["what"] == "execution")
    assert (done["reference"], done["slot"], done["billed"], done["outcome"]) == ("job", 1, 2, "done")
    assert (running["reference"], running["end"], running["outcome"]) == ("other", None, "running")
    simulator.stop()


@pytest.mark.parametrize("options", [["--latency", "soon"], ["--accounts", "1", "--over-limit", "shrug"]])
def test_a_wrong_option_stops_the_start(options):
    ended = subprocess.run([sys.executable, "-m", "simulator", *options], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 2


def test_utilisation_and_hand_off_are_measured_between_the_first_and_the_last_start(declare, simulator):
    caller = declare()
    for number in range(5):
        assert caller.run({"latency_ms": 40}, f"job-{number}.a1").status_code == 200
        time.sleep(0.02)
    report = simulator.report()
    lines = simulator.book()[-5:]
    assert all(line["answered"] >= line["end"] > line["start"] for line in lines)
    # Four of 40 ms, and more on a busy machine, run inside the window, with four gaps of more than 20 ms between them.
    window = lines[-1]["start"] - lines[0]["start"]
    gaps = sorted(1_000 * (later["start"] - earlier["answered"]) for earlier, later in pairwise(lines))
    assert report["utilisation_window_s"] == pytest.approx(window, abs=0.002)
    assert window >= 4 * 0.04 + 4 * 0.02 - 0.01
    inside = sum(line["answered"] - line["start"] for line in lines[:-1])
    assert report["utilisation"] == pytest.approx(inside / window, abs=0.01)
    assert report["handoff_ms"]["n"] == 4
    assert report["handoff_ms"]["p50"] == pytest.approx(gaps[1], abs=1)
    assert gaps[0] >= 20
    assert 38 <= report["latency_ms"]["p50"] <= 1_000 * window


def test_a_mark_begins_a_new_count_and_old_ones_can_be_asked_for(declare, simulator):
    caller = declare()
    before = simulator.control("mark")["mark"]
    caller.run({}, "job-1.a1")
    after = simulator.control("mark")["mark"]
    caller.run({}, "job-2.a1")
    assert simulator.report()["executions"] == 1
    assert simulator.report(since=after)["executions"] == 1
    assert simulator.report(since=before)["executions"] == 2
    assert simulator.client.get("/report", params={"since": after + 1}).status_code == 400


def test_an_empty_report_is_a_report(simulator):
    report = simulator.report()
    assert (report["executions"], report["utilisation"], report["handoff_ms"]["n"]) == (0, None, 0)


def test_it_shares_no_code_with_the_broker():
    program = "import sys, simulator.__main__; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    theirs = {"broker_project", "jobs", "upstream", "pool", "credits", "webhooks", "tenants", "statemachine", "django"}
    assert not theirs & set(loaded.stdout.split())
