"""The task endpoints: polls, finds, cancels and callbacks, with their faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest


class Receiver:
    """Records what is posted to it, in order."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.refused = 0  # so many more are to be told again
        self.arrived = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with receiver.arrived:
                    receiver.bodies.append(body)
                    receiver.arrived.notify_all()
                    refused, receiver.refused = receiver.refused > 0, receiver.refused - 1
                self.send_response(503 if refused else 204)
                if refused:
                    self.send_header("Retry-After", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/done"

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.bodies) >= count, 3), self.bodies
            return list(self.bodies)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def submit(caller, body: Any = None, key: str = "") -> str:
    answer = caller.call("POST", "/tasks", {} if body is None else body, key)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def poll(caller, task: str) -> Any:
    return caller.call("GET", f"/tasks/{task}").json()


def test_a_task_is_queued_running_done(declare, simulator):
    caller = declare()
    answer = caller.call("POST", "/tasks", {"latency_ms": 100, "units": 3})
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    running = poll(caller, answer.json()["id"])
    assert (running["status"], running["units"]) == ("running", None)
    assert running["progress"] < 1
    caller.wait_until(running=0)
    done = poll(caller, answer.json()["id"])
    assert (done["status"], done["progress"], done["units"]) == ("done", 1, 3)
    assert done["output"]["text"]


def test_a_task_is_found_by_its_key_and_by_nobody_else(declare, simulator):
    caller, other = declare(), declare()
    task = submit(caller, {}, "job.a1")
    assert submit(caller, {}, "job.a1") == task
    assert caller.call("GET", "/tasks/any?key=job.a1").json()["id"] == task
    assert caller.call("GET", "/tasks/any?key=job.a2").status_code == 404
    assert other.call("GET", "/tasks/any?key=job.a1").status_code == 404
    assert other.call("GET", f"/tasks/{task}").status_code == 404


def test_a_throttled_task_says_so_and_runs_later(declare, simulator):
    caller = declare()
    caller.fault({"over_limit": "queue"})
    submit(caller, {"latency_ms": 100})
    waiting = caller.call("POST", "/tasks", {}).json()
    assert waiting["status"] == poll(caller, waiting["id"])["status"] == "THROTTLED"
    caller.wait_until(running=0, waiting=0)
    assert poll(caller, waiting["id"])["status"] == "done"


def test_a_late_failure_ends_the_task_failed_and_unbilled(declare, simulator):
    caller = declare()
    task = submit(caller, {"sim": {"fail": {"code": 500, "late": True}}})
    caller.wait_until(running=0)
    failed = poll(caller, task)
    assert (failed["status"], failed["units"], failed["error"]["code"]) == ("failed", 0, "500")


def test_a_cancel_ends_the_task_and_frees_its_session(declare, simulator):
    caller = declare()
    task = submit(caller, {"seconds": 60})
    assert caller.call("DELETE", f"/tasks/{task}").json()["status"] == "cancelled"
    assert caller.state()["running"] == 0
    assert caller.call("DELETE", f"/tasks/{task}").status_code == 200
    assert caller.run().status_code == 200


def test_the_time_of_a_cancelled_task_ends_nothing_of_the_next(declare, simulator):
    caller = declare()
    cancelled = submit(caller, {"latency_ms": 80})
    caller.call("DELETE", f"/tasks/{cancelled}")
    following = submit(caller, {"seconds": 60})
    time.sleep(0.15)
    assert caller.state()["running"] == 1
    assert [poll(caller, task)["status"] for task in (cancelled, following)] == ["cancelled", "running"]
    caller.call("DELETE", f"/tasks/{following}")


def test_a_cancel_can_be_slow(declare, simulator):
    caller = declare()
    task = submit(caller, {"seconds": 60, "sim": {"cancel_slow": "1s"}})
    answer = caller.call("DELETE", f"/tasks/{task}")
    assert (answer.status_code, answer.json()["status"]) == (202, "running")
    assert caller.state()["running"] == 1
    caller.wait_until(running=0)
    assert poll(caller, task)["status"] == "cancelled"


def test_a_cancel_can_be_ignored(declare, simulator):
    caller = declare()
    task = submit(caller, {"seconds": 1, "sim": {"cancel_ignored": True}})
    assert caller.call("DELETE", f"/tasks/{task}").status_code == 202
    caller.wait_until(running=0)
    assert poll(caller, task)["status"] == "done"
    assert caller.call("DELETE", f"/tasks/{task}").status_code == 409
    assert simulator.book()[-1]["cancel_requested"] is True


def test_polls_can_say_404_or_hang(declare, simulator):
    caller = declare()
    task = submit(caller, {"sim": {"poll_404": 2}})
    statuses = [caller.call("GET", f"/tasks/{task}").status_code for _ in range(3)]
    assert statuses == [404, 404, 200]
    caller.wait_until(running=0)
    slow = submit(caller, {"sim": {"hang_poll": "30s"}})
    with pytest.raises(httpx.ReadTimeout):
        caller.call("GET", f"/tasks/{slow}", timeout=0.5)


def test_polls_can_be_cut_or_behind_the_times(declare, simulator):
    caller = declare()
    task = submit(caller, {"latency_ms": 1, "sim": {"lose_poll": 1, "stale_poll": 1}})
    caller.wait_until(running=0)
    with pytest.raises(httpx.RemoteProtocolError):
        poll(caller, task)
    # The cut one was the first after the end, too.
    assert poll(caller, task)["status"] == "done"
    stale = submit(caller, {"latency_ms": 1, "sim": {"stale_poll": 1}})
    caller.wait_until(running=0)
    assert [poll(caller, stale)["status"] for _ in range(2)] == ["running", "done"]


def test_finds_can_be_cut_or_late(declare, simulator):
    caller = declare()
    submit(caller, {"sim": {"lose_find": 1}}, "job.a1")
    with pytest.raises(httpx.RemoteProtocolError):
        caller.call("GET", "/tasks/any?key=job.a1")
    assert caller.call("GET", "/tasks/any?key=job.a1").status_code == 200
    caller.wait_until(running=0)
    submit(caller, {"sim": {"find_late": "1s"}}, "job.a2")
    assert caller.call("GET", "/tasks/any?key=job.a2").status_code == 404
    time.sleep(1.0)
    assert caller.call("GET", "/tasks/any?key=job.a2").status_code == 200


@pytest.mark.parametrize("path", ["/run", "/tasks"])
def test_a_known_key_can_be_refused_with_the_name_of_its_work(declare, simulator, path):
    caller = declare()
    body = {"sim": {"exists": True}}
    first = caller.call("POST", path, body, "job.a1")
    again = caller.call("POST", path, body, "job.a1")
    assert (again.status_code, again.json()["id"]) == (409, first.json()["id"])
    assert again.json()["error"]["code"] == "exists"
    assert simulator.report()["executions"] == 1


def test_the_answer_to_a_cancel_can_be_lost(declare, simulator):
    caller = declare()
    task = submit(caller, {"seconds": 60, "sim": {"lose_cancel": True}})
    with pytest.raises(httpx.RemoteProtocolError):
        caller.call("DELETE", f"/tasks/{task}")
    assert poll(caller, task)["status"] == "cancelled"


def test_a_status_can_be_a_strange_word_and_an_id_empty(declare, simulator):
    caller = declare()
    assert submit(caller, {"sim": {"empty_id": True, "status_word": "ripe"}}, "job.a1") == ""
    caller.wait_until(running=0)
    assert caller.call("GET", "/tasks/any?key=job.a1").json()["status"] == "ripe"


def test_an_answer_to_a_submit_can_be_lost_and_the_task_found(declare, simulator):
    caller = declare()
    with pytest.raises(httpx.RemoteProtocolError):
        caller.call("POST", "/tasks", {"sim": {"accept_then_drop": True}}, "job.a1")
    assert caller.call("GET", "/tasks/any?key=job.a1").status_code == 200


def test_a_callback_tells_the_end_once(declare, simulator, receiver):
    caller = declare()
    task = submit(caller, {"units": 2, "callback_url": receiver.url})
    (told,) = receiver.wait_for(1)
    assert told == poll(caller, task)
    assert (told["id"], told["status"], told["units"]) == (task, "done", 2)


def test_a_callback_is_told_again_for_as_long_as_the_receiver_asks_for_it(declare, simulator, receiver):
    caller = declare()
    receiver.refused = 5
    task = submit(caller, {"callback_url": receiver.url})
    assert [told["id"] for told in receiver.wait_for(6)] == [task] * 6


def test_callbacks_can_come_twice_and_out_of_order(declare, simulator, receiver):
    caller = declare()
    submit(caller, {"callback_url": receiver.url, "sim": {"dup_callback": 2, "out_of_order": True}})
    assert [told["status"] for told in receiver.wait_for(3)] == ["done", "done", "running"]


def test_a_callback_can_come_before_the_submit_is_answered(declare, simulator, receiver):
    task = submit(declare(), {"callback_url": receiver.url, "sim": {"early_callback": True}})
    assert [told["id"] for told in receiver.bodies] == [task]


def test_a_callback_can_come_late_or_never(declare, simulator, receiver):
    caller = declare(sessions=2)
    begun = time.monotonic()
    submit(caller, {"callback_url": receiver.url, "sim": {"no_callback": True}})
    late = submit(caller, {"latency_ms": 10, "callback_url": receiver.url, "sim": {"late_callback": "150ms"}})
    assert [told["id"] for told in receiver.wait_for(1)] == [late]
    assert time.monotonic() - begun >= 0.15
