"""The sync endpoint: limits, keys, and what the book says of them."""

from __future__ import annotations

import httpx
import pytest


def test_a_run_answers_with_its_result(declare, simulator):
    answer = declare().run({"units": 7, "echo": "cat"}, "job-1.a1").json()
    assert (answer["status"], answer["units"]) == ("done", 7)
    assert answer["output"]["reference"] == "job-1"
    assert answer["output"]["echo"] == "cat"


def test_strangers_and_the_banned_are_turned_away(declare, simulator):
    assert simulator.client.post("/run", json={}, headers={"Authorization": "Bearer nobody"}).status_code == 401
    assert simulator.client.post("/run", json={}).status_code == 401
    caller = declare(banned=True)
    assert caller.run().status_code == 403
    assert simulator.report()["refused"] == 3


@pytest.mark.parametrize(
    "body", [[1], {"seconds": -1}, {"latency_ms": "x"}, {"units": "NaN"}, {"sim": {"no_such_fault": 1}}, {"sim": 3}]
)
def test_a_body_that_makes_no_sense_is_refused_and_not_executed(declare, simulator, body):
    assert declare().run(body).status_code == 400
    assert simulator.report()["executions"] == 0


def test_a_request_over_the_limit_is_refused_and_counts_as_overlap(declare, simulator):
    caller = declare(sessions=2)
    running = [caller.later({"latency_ms": 300}) for _ in range(2)]
    caller.wait_until(running=2)
    refused = caller.run()
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "1"
    assert [future.result().status_code for future in running] == [200, 200]
    report = simulator.report()
    assert (report["overlaps"], report["rejected_over_limit"], report["executions"]) == (1, 1, 2)
    assert report["max_running"] == {caller.name: 2}


def test_going_over_the_limit_can_mean_waiting(declare, simulator):
    caller = declare(over_limit="queue")
    both = [caller.later({"latency_ms": 60}) for _ in range(2)]
    assert [future.result().status_code for future in both] == [200, 200]
    report = simulator.report()
    assert (report["overlaps"], report["throttled"], report["rejected_over_limit"]) == (1, 1, 0)
    assert report["max_running"] == {caller.name: 1}


def test_going_over_the_limit_can_mean_a_ban(declare, simulator):
    caller = declare(over_limit="ban")
    running = caller.later({"latency_ms": 200})
    caller.wait_until(running=1)
    assert caller.run().status_code == 403
    assert running.result().status_code == 200
    assert caller.run().status_code == 403


def test_a_repeat_waits_for_the_same_answer_and_is_no_overlap(declare, simulator):
    caller = declare()
    first = caller.later({"latency_ms": 200}, "job.a1")
    caller.wait_until(running=1)
    repeat = caller.run({"latency_ms": 200}, "job.a1")
    stored = caller.run({"latency_ms": 200}, "job.a1")
    assert first.result().json() == repeat.json() == stored.json()
    report = simulator.report()
    assert (report["executions"], report["repeats"], report["overlaps"]) == (1, 2, 0)


def test_a_key_with_another_body_is_refused(declare, simulator):
    caller = declare()
    caller.run({"units": 1}, "job.a1")
    assert caller.run({"units": 2}, "job.a1").status_code == 422
    assert simulator.report()["executions"] == 1


def test_keys_of_two_accounts_are_apart(declare, simulator):
    first, second = declare(), declare()
    assert first.run({}, "job.a1").json()["id"] != second.run({}, "job.a1").json()["id"]


def test_without_deduplication_a_repeat_is_a_double(declare, simulator):
    caller = declare()
    simulator.control("settings", {"idempotent": False})
    first, second = caller.run({}, "job.a1").json(), caller.run({}, "job.a1").json()
    simulator.control("settings", {"idempotent": True})
    assert first["id"] != second["id"]
    assert simulator.book()[-1]["repeat_of"] == first["id"]
    report = simulator.report()
    assert (report["double_executions"], report["doubles"], report["jobs"]) == (1, ["job"], 1)


def test_an_attempt_after_an_unbilled_failure_is_no_double(declare, simulator):
    caller = declare()
    assert caller.run({"sim": {"fail": {"code": 500, "late": True}}}, "job.a1").status_code == 500
    assert caller.run({}, "job.a2").status_code == 200
    report = simulator.report()
    assert (report["executions"], report["jobs"], report["double_executions"]) == (2, 1, 0)


def test_an_attempt_after_a_billed_failure_is_a_double(declare, simulator):
    caller = declare()
    assert caller.run({"units": 3, "sim": {"fail": {"code": 500, "billed": True}}}, "job.a1").status_code == 500
    caller.run({}, "job.a2")
    report = simulator.report()
    assert report["double_executions"] == 1
    assert report["billed_units"] == {caller.name: 4}


def test_a_caller_who_hangs_up_does_not_free_the_session(declare, simulator):
    caller = declare()
    with pytest.raises(httpx.ReadTimeout):
        caller.run({"seconds": 1}, "job.a1", timeout=0.2)
    assert caller.state()["running"] == 1
    assert caller.run({}, "other.a1").status_code == 429
    answer = caller.run({"seconds": 1}, "job.a1")
    assert answer.json()["status"] == "done"
    assert caller.state()["running"] == 0
    assert simulator.report()["executions"] == 1


def test_a_balance_is_spent_and_then_refused(declare, simulator):
    caller = declare(balance=5)
    assert caller.run({"units": 4}).status_code == 200
    assert caller.run({"units": 4}).status_code == 402
    assert caller.call("GET", "/account").json()["balance"] == 1


def test_a_smaller_limit_ends_nothing_and_then_holds(declare, simulator):
    caller = declare(sessions=2)
    running = [caller.later({"latency_ms": 200}) for _ in range(2)]
    caller.wait_until(running=2)
    simulator.control("accounts", [{"name": caller.name, "sessions": 1}])
    assert caller.run().status_code == 429
    assert [future.result().status_code for future in running] == [200, 200]
    assert [caller.run().status_code for _ in range(2)] == [200, 200]
    assert [line["slot"] for line in simulator.book()[-2:]] == [1, 1]
