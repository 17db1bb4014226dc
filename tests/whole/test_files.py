"""Stories of files: an input that the upstream fetches, results that are none of JSON, and links that die."""

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.linking import Linking
from tests.whole.running import Running, ended, wait_for

pytestmark = pytest.mark.processes
IMAGE = bytes(range(256)) * 2_000
RESULT_FILES = {"urls": "response.body.url"}


@pytest.fixture
def provider() -> Iterator[Linking]:
    made = Linking()
    yield made
    made.die()


def config(name: str, provider: Linking, **upstream: Any) -> dict[str, Any]:
    return {
        "pools": {
            name: {
                "upstream": {"base_url": provider.url, "headers": {"Authorization": "'Bearer ' + account.credential"}},
                "accounts": {"one": {"sessions": 1, "credential": {"env": "CREDENTIAL"}}},
            }
        },
        "job_types": {
            name: {
                "pool": name,
                "price": "2",
                "max_runtime": "1m",
                "upstream": {"submit": {"path": "'/run'"}, **upstream},
            }
        },
        "tenants": {name: {"credits": 100}},
    }


def submitted(client: httpx.Client, name: str, payload: Any) -> str:
    answer = client.post("/v1/jobs", json={"type": name, "payload": payload})
    assert answer.status_code in (200, 202), answer.text  # 200: it has ended already
    return str(answer.json()["id"])


def test_an_input_goes_to_the_upstream_and_its_result_outlives_the_link(berth: Running, provider: Linking) -> None:
    def run() -> bytes:
        image = json.loads(provider.sent["/run"])["image"]
        content = httpx.get(image["url"]).content  # as an upstream would: without a key
        assert (len(content), image["content_type"]) == (image["size"], "image/png")
        provider.pages["/made.png"] = (200, {"Content-Type": "image/png"}, content[::-1])
        return json.dumps({"status": "done", "url": f"{provider.url}/made.png"}).encode()

    provider.pages["/run"] = (200, {"Content-Type": "application/json"}, run)
    berth.apply(config("turning", provider, result_files=RESULT_FILES), CREDENTIAL="secret")
    with berth.client("turning") as client:
        sent = client.post("/v1/files", content=IMAGE, headers={"Content-Type": "image/png"})
        assert sent.json()["sha256"] == hashlib.sha256(IMAGE).hexdigest()
        job = submitted(client, "turning", {"image": {"file": sent.json()["id"]}})
        (done,) = wait_for(lambda: ended(client, {job}))
        assert done["state"] == "completed", done
        assert "authorization" not in provider.headers["/made.png"], "no path is declared"
        provider.die()
        result = client.get(done["result_url"])
        assert (result.status_code, result.headers["Content-Type"]) == (200, "image/png")
        assert result.content == IMAGE[::-1]
        assert client.delete(f"/v1/files/{done['result']['file']}").status_code == 204
        assert client.get(done["result_url"]).status_code == 410
    assert berth.audit_breaches() == {}


def test_an_image_as_the_answer_is_the_result(berth: Running, provider: Linking) -> None:
    provider.pages["/run"] = (200, {"Content-Type": "image/webp"}, IMAGE)
    berth.apply(config("plain", provider), CREDENTIAL="secret")
    with berth.client("plain") as client:
        job = submitted(client, "plain", {})
        (done,) = wait_for(lambda: ended(client, {job}))
        result = client.get(done["result_url"])
        assert (result.headers["Content-Type"], result.content) == ("image/webp", IMAGE)
    assert berth.audit_breaches() == {}


def test_a_worker_that_dies_while_it_fetches_loses_no_result_and_no_session(berth: Running, provider: Linking) -> None:
    def made() -> bytes:
        if provider.seen["/made"] == 1:
            time.sleep(20)  # until its reader is dead
        return b"made"

    provider.pages["/made"] = (200, {"Content-Type": "text/plain"}, made)
    provider.pages["/run"] = (200, {}, json.dumps({"url": f"{provider.url}/made"}).encode())
    berth.apply(config("dying", provider, result_files=RESULT_FILES), CREDENTIAL="secret")
    with berth.client("dying") as client:
        first = submitted(client, "dying", {})
        wait_for(lambda: provider.seen["/made"] == 1)
        second = submitted(client, "dying", {})
        wait_for(lambda: provider.seen["/run"] == 2)  # the one session is free while the first's file is on its way
        assert client.get(f"/v1/jobs/{first}").json()["state"] == "processing"
        os.kill(berth.pid("worker-upstream"), signal.SIGKILL)
        done = wait_for(lambda: ended(client, {first, second}))
        assert [job["state"] for job in done] == ["completed"] * 2, done
        assert {client.get(job["result_url"]).text for job in done} == {"made"}
    assert provider.seen["/run"] == 2
    assert berth.audit_breaches() == {}


def test_a_polled_result_behind_a_link_is_stored_too(berth: Running, provider: Linking) -> None:
    provider.pages["/run"] = (202, {}, b'{"id": "t1"}')
    provider.pages["/tasks/t1"] = (200, {}, json.dumps({"status": "done", "url": f"{provider.url}/made"}).encode())
    provider.pages["/made"] = (200, {"Content-Type": "image/png"}, IMAGE)
    polled = config("polled", provider, mode="poll", result_files=RESULT_FILES)
    polled["job_types"]["polled"]["upstream"] |= {
        "submit": {"path": "'/run'", "reference": "response.body.id"},
        "poll": {"path": "'/tasks/' + reference", "every": "200ms", "success": "response.body.status == 'done'"},
    }
    berth.apply(polled, CREDENTIAL="secret")
    with berth.client("polled") as client:
        job = submitted(client, "polled", {})
        (done,) = wait_for(lambda: ended(client, {job}))
        assert done["state"] == "completed", done
        provider.die()
        assert client.get(done["result_url"]).content == IMAGE
    assert berth.audit_breaches() == {}


def test_a_file_is_sent_as_its_address_and_a_host_that_is_not_allowed_waits_to_be_mended(
    berth: Running, provider: Linking
) -> None:
    elsewhere = Linking()  # at an address that is written out: a name would have to lead to a public one

    def run() -> bytes:
        made = httpx.get(json.loads(provider.sent["/run"])["image"]).content[::-1]
        elsewhere.pages["/made.png"] = (200, {"Content-Type": "image/png"}, made)
        return json.dumps({"url": f"{elsewhere.url}/made.png"}).encode()

    provider.pages["/run"] = (200, {"Content-Type": "application/json"}, run)
    berth.apply(config("mending", provider, files="url", result_files=RESULT_FILES), CREDENTIAL="secret")
    with berth.client("mending") as client:
        sent = client.post("/v1/files", content=IMAGE, headers={"Content-Type": "image/png"})
        job = submitted(client, "mending", {"image": {"file": sent.json()["id"]}})
        waiting = wait_for(lambda: _waiting(client, job))
        assert (waiting["verdict"], "127.0.0.1" in str(waiting)) == ("succeeded", False)
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "processing"
        allowed = {**RESULT_FILES, "hosts": [elsewhere.url.removeprefix("http://")]}
        berth.apply(config("mending", provider, files="url", result_files=allowed), CREDENTIAL="secret")
        (done,) = wait_for(lambda: ended(client, {job}))
        assert done["state"] == "completed", done
        assert client.get(done["result"]["url"]).content == IMAGE[::-1]
    elsewhere.die()
    assert provider.seen["/run"] == 1, "the work was not paid for a second time"
    assert berth.audit_breaches() == {}


def _waiting(client: httpx.Client, job: str) -> Any:
    """The attempt whose result could not be fetched yet."""
    attempts = client.get(f"/v1/jobs/{job}/attempts").json()["data"]
    return next((each for each in attempts if (each["error"] or {}).get("code") == "result_unavailable"), None)
