"""A slow database: probes answer, requests that cannot begin are refused undone, and those of absent senders are dropped."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.db import transaction

from credits import ledger
from jobs.models import Job, JobType
from tests import db
from tests.api.conftest import Caller
from tests.api.servers import HOST, WebAndLive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
THREADS, CONNECTIONS = 4, 2  # of the web process in these tests: half its threads wait for a connection


def submit(servers: WebAndLive, caller: Caller, job_type: JobType, sent: Callable[[], object] = lambda: None) -> int:
    """The status; `sent` is called once the request is on its way."""

    def trace(event: str, _info: Any) -> None:
        if event == "http11.send_request_body.complete":
            sent()

    headers = {"Authorization": f"Bearer {caller.key}"}
    body = {"type": job_type.name, "payload": {}}
    with httpx.Client(timeout=30) as client:
        url = f"{servers.urls['web']}/v1/jobs"
        return client.post(url, json=body, headers=headers, extensions={"trace": trace}).status_code


def test_while_all_threads_wait_probes_answer_and_no_absent_senders_job_is_stored(
    servers: WebAndLive, caller: Caller, job_type: JobType
) -> None:
    with transaction.atomic(), ThreadPoolExecutor(THREADS) as clients:
        ledger.lock_wallets([caller.tenant.pk])
        sent = threading.Barrier(THREADS + 1, timeout=db.BLOCKED_SECONDS)
        waiting = [clients.submit(submit, servers, caller, job_type, sent.wait) for _ in range(THREADS)]
        sent.wait()  # else a thread would be free for one who leaves
        db.until_waiting(CONNECTIONS)
        for _ in range(3):
            _send_and_leave(servers, caller, {"type": job_type.name, "payload": {"left": True}})
        begun = time.monotonic()
        assert httpx.get(f"{servers.urls['web']}/healthz", timeout=5).status_code == 200
        assert time.monotonic() - begun < 5, "it does not wait as the others do"
        statuses = {each.result() for each in waiting}
    assert statuses == {503}, "each gave up at the lock"
    assert submit(servers, caller, job_type) == 202
    assert Job.objects.filter(payload__left=True).count() == 0


def _send_and_leave(servers: WebAndLive, caller: Caller, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {caller.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection((HOST, servers.ports["web"]), timeout=5) as wire:
        wire.sendall(head.encode() + content)
        time.sleep(0.2)  # web takes it in; of one that leaves earlier nothing would be stored either
