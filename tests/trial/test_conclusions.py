"""What `check_upstream` concludes from a payload that it sent, and which conclusions are a problem."""

from typing import Any

import pytest

from jobs.models import JobType
from pool.models import Pool
from tests.trial.conftest import PAYLOAD, check
from tests.upstream.fakes.replicate import Replicate

pytestmark = pytest.mark.django_db


def test_a_success_whose_links_may_not_be_followed_is_a_problem(
    server: Replicate, pool: Pool, job_type: JobType
) -> None:
    job_type.upstream["result_files"] = {"urls": "response.body.output", "hosts": ["cdn.example.com"]}
    job_type.save()
    server.at_request[3] = server.succeeds
    said, problem = check(pool, "--submit", PAYLOAD)
    assert problem
    assert "succeeded, session over, code result_unavailable" in said
    assert "PROBLEM: result_files finds no link that may be followed (result_unavailable)" in said
    job_type.upstream["result_files"]["hosts"] = ["files"]
    job_type.save()
    server.at_request = {len(server.requests) + 3: server.succeeds}
    said, problem = check(pool, "--submit", PAYLOAD)
    assert not problem, said
    assert "a result behind 1 link, not fetched here" in said


@pytest.mark.parametrize(
    ("poll", "why"),
    [
        ({"result": "response.body.outputs.first"}, "(mapping_error)"),
        ({"running": "true"}, "(mapping_error)"),
        ({"success": "false"}, "no expression claims the answer (unknown_answer)"),
        ({"units": "response.body.metrics.seconds"}, "what was used cannot be told: response.body.metrics.seconds: "),
    ],
)
def test_a_conclusion_that_the_declaration_made_wrong_is_a_problem(
    server: Replicate, pool: Pool, job_type: JobType, poll: dict[str, str], why: str
) -> None:
    job_type.upstream["poll"] |= poll
    job_type.save()
    server.at_request[2] = server.succeeds
    said, problem = check(pool, "--submit", PAYLOAD, "--patience", "0.1")
    assert problem
    assert "PROBLEM: " in said
    assert why in said


def test_a_payload_that_the_upstream_refuses_is_concluded_and_no_problem(
    server: Replicate, pool: Pool, job_type: JobType
) -> None:
    said, problem = check(pool, "--submit", '{"version": "v1"}')
    assert not problem
    assert "-> 422\n    not_executed, session over, code http_422 (rejected)" in said


@pytest.mark.parametrize("mode", ["callback", "poll"])
def test_the_address_for_callbacks_is_sent_where_a_job_sends_it(
    server: Replicate, pool: Pool, job_type: JobType, settings: Any, mode: str
) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    job_type.upstream |= {"mode": mode, "poll": {"every": "20ms", "fallback": "20ms"}}
    job_type.save()
    server.at_request[2] = server.succeeds
    _, problem = check(pool, "--submit", PAYLOAD)
    assert not problem
    assert ("https://berth.example/v1/upstream/0/check" in str(server.requests[0])) is (mode == "callback")
    settings.PUBLIC_URL = ""
    server.at_request = {len(server.requests) + 2: server.succeeds}
    check(pool, "--submit", PAYLOAD)
    assert "webhook" not in str(server.requests[2:])


def test_a_long_wait_is_told(server: Replicate, pool: Pool, job_type: JobType) -> None:
    job_type.upstream |= {"mode": "callback", "poll": {"fallback": "1s"}}
    job_type.save()
    server.at_request[2] = server.succeeds
    said, problem = check(pool, "--submit", PAYLOAD)
    assert not problem
    assert "    … the payload is sent; its answer is waited for\n" in said
    assert "    … 1 s until the next poll (poll.fallback: no callback is heard here)\n" in said
