"""Each fault of the list, as a caller of the sync endpoint meets it."""

from __future__ import annotations

import time

import httpx
import pytest


def test_fail_is_an_answer_and_not_an_execution(declare, simulator):
    caller = declare()
    caller.fault({"fail": {"code": 503, "retry_after": 2}}, times=1)
    answer = caller.run({}, "job.a1")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert simulator.report()["executions"] == 0
    assert caller.run({}, "job.a1").status_code == 200


def test_accept_then_drop_executes_and_the_repeat_finds_the_answer(declare, simulator):
    caller = declare()
    body = {"sim": {"accept_then_drop": True}}
    with pytest.raises(httpx.RemoteProtocolError):
        caller.run(body, "job.a1")
    assert caller.run(body, "job.a1").json()["status"] == "done"
    assert simulator.report()["executions"] == 1


def test_a_fault_that_says_so_meets_repeats_too(declare, simulator):
    caller = declare()
    body = {"sim": {"accept_then_drop": True, "repeats": True, "times": 2}}
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            caller.run(body, "job.a1")
    assert caller.run(body, "job.a1").json()["status"] == "done"


def test_a_rule_meets_first_sendings_only_unless_it_says_repeats(declare, simulator):
    caller = declare()
    caller.run({}, "job.a1")
    caller.fault({"fail": 503})
    assert [caller.run({}, "job.a1").status_code, caller.run({}, "job.a2").status_code] == [200, 503]
    caller.fault({"fail": 503}, repeats=True)
    assert caller.run({}, "job.a1").status_code == 503
    assert simulator.report()["executions"] == 1


def test_hang_holds_the_session_and_never_answers(declare, simulator):
    caller = declare()
    with pytest.raises(httpx.ReadTimeout):
        caller.run({"sim": {"hang": "1s"}}, "job.a1", timeout=0.2)
    assert caller.state()["running"] == 1
    caller.wait_until(running=0)
    assert simulator.book()[-1]["outcome"] == "done"


def test_finish_late_takes_its_time(declare, simulator):
    caller = declare()
    begun = time.monotonic()
    assert caller.run({"latency_ms": 1, "sim": {"finish_late": "150ms"}}).status_code == 200
    assert time.monotonic() - begun >= 0.14


def test_an_error_can_come_with_status_200(declare, simulator):
    answer = declare().run({"sim": {"error_body": True}})
    assert (answer.status_code, answer.json()["status"]) == (200, "error")
    assert simulator.report()["outcomes"] == {"failed": 1}


def test_an_answer_can_be_unreadable(declare, simulator):
    caller = declare()
    answer = caller.run({"sim": {"unreadable_body": True}}, "job.a1")
    assert answer.status_code == 200
    with pytest.raises(ValueError, match="Unterminated"):
        answer.json()
    assert simulator.report()["billed_units"] == {caller.name: 1}


def test_an_answer_can_be_cut(declare, simulator):
    caller = declare()
    with pytest.raises(httpx.RemoteProtocolError):
        caller.run({"sim": {"cut_body": True}}, "job.a1")
    assert simulator.report()["billed_units"] == {caller.name: 1}


@pytest.mark.parametrize("usage", [-5, None, "NaN", 1e12])
def test_usage_can_be_false_while_the_book_is_true(declare, simulator, usage):
    caller = declare()
    assert caller.run({"sim": {"bad_usage": usage}}).json()["units"] == usage
    assert simulator.report()["billed_units"] == {caller.name: 1}


def test_a_result_can_be_partial(declare, simulator):
    answer = declare().run({"units": 8, "sim": {"partial": 0.25}}).json()
    assert (answer["status"], answer["units"]) == ("partial", 2)


def test_strangers_take_sessions_without_being_our_overlap(declare, simulator):
    caller = declare(sessions=2)
    caller.fault({"oob": 2})
    assert caller.run().status_code == 429
    report = simulator.report()
    assert (report["rejected_over_limit"], report["overlaps"]) == (1, 0)
    simulator.client.delete("/control/faults", params={"account": caller.name})
    assert caller.run().status_code == 200


def test_an_address_limit_hits_every_account_until_it_is_over(declare, simulator):
    first, second = declare(), declare()
    simulator.control("faults", {"fault": {"ip_429": "60s"}})
    assert [first.run().status_code, second.run().status_code] == [429, 429]
    assert int(first.call("GET", "/tasks/any?key=x").headers["Retry-After"]) <= 60
    simulator.client.delete("/control/faults")
    assert first.run().status_code == 200


def test_a_ban_lasts_until_it_is_cleared(declare, simulator):
    caller, other = declare(), declare()
    caller.fault({"ban": True})
    assert [caller.run().status_code, other.run().status_code] == [403, 200]
    simulator.client.delete("/control/faults")
    assert caller.run().status_code == 200


def test_a_probability_is_met_about_so_often_and_the_same_under_one_seed(own_simulator):
    def statuses() -> list[int]:
        simulator = own_simulator("--accounts", "1", "--latency", "0ms", "--seed", "7")
        simulator.control("faults", {"fault": {"fail": 500}, "probability": 0.5})
        headers = {"Authorization": "Bearer sim-acct-001"}
        return [simulator.client.post("/run", json={}, headers=headers).status_code for _ in range(60)]

    first = statuses()
    assert 15 <= first.count(500) <= 45
    assert statuses() == first


@pytest.mark.parametrize(
    "rule",
    [
        {"fault": {"nonsense": 1}},
        {"fault": {"fail": 200}},
        {"fault": {"hang": "soon"}},
        {"fault": {"oob": -1}},
        {"fault": {"over_limit": "shrug"}},
        {"fault": {"fail": 500}, "probability": 2},
        {"fault": {"fail": 500}, "often": 2},
        {"no_fault": {}},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(simulator, rule):
    assert simulator.client.post("/control/faults", json=rule).status_code == 400
    assert simulator.client.get("/control/faults").json() == []
