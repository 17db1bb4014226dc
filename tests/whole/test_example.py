"""broker.example.yaml as it stands, against the simulator it names: a job of each of its types, also of one that is told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.whole.running import Running, ended, simulator, wait_for

pytestmark = pytest.mark.processes
EXAMPLE = Path(__file__).parents[2] / "broker.example.yaml"
ADDRESS = "http://127.0.0.1:9900"  # where it says that the simulator listens
CREDENTIALS = {f"ACCT_00{number}": f"sim-acct-00{number}" for number in (1, 2, 3)}
PAYLOADS: dict[str, dict[str, Any]] = {
    "clip": {"seconds": 0.2},
    "clip-async": {"seconds": 0.2, "echo": "a cat"},
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with simulator("--accounts", "3") as url:
        yield url


def example(url: str) -> str:
    """The file, but for the port of the simulator."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count(ADDRESS) == 1
    return text.replace(ADDRESS, url)


def applied(berth: Running, text: str) -> None:
    path = berth.home / "example.yaml"
    path.write_text(text, encoding="utf-8")
    done = berth.manage("apply", str(path), **CREDENTIALS)
    assert done.returncode == 0, done.stdout + done.stderr


def run(client: httpx.Client, job_type: str) -> dict[str, Any]:
    """A job of the type, at its end."""
    answer = client.post("/v1/jobs", json={"type": job_type, "payload": PAYLOADS[job_type]})
    assert answer.status_code == 202, answer.text
    (job,) = wait_for(lambda: ended(client, {answer.json()["id"]}))
    assert job["state"] == "completed", job
    return dict(job)


def test_a_job_of_each_type_of_the_example_completes(berth: Running, upstream: str) -> None:
    text = example(upstream)
    assert set(PAYLOADS) == set(yaml.safe_load(text)["job_types"])
    applied(berth, text)
    with berth.client("acme") as client:
        assert {job_type["name"] for job_type in client.get("/v1/job-types").json()["data"]} == set(PAYLOADS)
        clip, later = run(client, "clip"), run(client, "clip-async")
        assert (clip["result"]["status"], clip["credits"]["charged"]) == ("done", "1.000000")
        assert (later["result"]["echo"], later["credits"]["charged"]) == ("a cat", "20.000000")
    report = httpx.get(f"{upstream}/report").json()
    assert (report["executions"], report["polls"] > 0, report["overlaps"]) == (2, True, 0)
    assert berth.audit_breaches() == {}


def test_its_polled_type_is_told_once_it_sends_the_address(berth: Running, upstream: str) -> None:
    """What the comments of the file say of mode callback: another mode, a body with `callback_url`, and nothing else."""
    config = yaml.safe_load(example(upstream))
    block = config["job_types"]["clip-async"]["upstream"]
    block["mode"] = "callback"
    block["submit"]["body"] = "{'seconds': payload.seconds, 'echo': payload.echo, 'callback_url': callback_url}"
    block["poll"]["fallback"] = "1h"  # only its word can end the job in time
    applied(berth, yaml.safe_dump(config))
    with berth.client("acme") as client:
        assert run(client, "clip-async")["result"]["echo"] == "a cat"
    assert berth.audit_breaches() == {}


def test_the_example_is_tried_without_a_problem(berth: Running, upstream: str) -> None:
    applied(berth, example(upstream))
    done = berth.manage("check_upstream", "video")
    assert done.returncode == 0, done.stdout + done.stderr
    sent = berth.manage("check_upstream", "video", "--type", "clip-async", "--submit", '{"seconds": 0.2}')
    assert (sent.returncode, "end\n    succeeded" in sent.stdout) == (0, True), sent.stdout + sent.stderr
