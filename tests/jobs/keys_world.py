"""An upstream that says which dispatch keys it knows, and jobs that a restore suspects."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from jobs import reopening, restoring
from jobs.models import Job, Suspicion
from pool.models import Pool
from tests import factories

FIND = {
    "path": "'/find?key=' + dispatch_key",
    "after": "1s",
    "missing": "response.status == 404",
    "reference": "response.body.id",
    "running": "response.body.status == 'running'",
    "success": "response.body.status == 'done'",
    "failed": "response.body.status == 'broken'",
    "units": "response.body.units",
}


class Keys(ThreadingHTTPServer):
    """An upstream that only answers to `find`: `known` are (credential, key); `status` is said of what is not known."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.known: dict[tuple[str, str], str] = {}
        self.status = 404
        self.asked: list[tuple[str, str]] = []
        self.slow = ""  # a credential that is answered only when `awaited` says so
        self.awaited = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answers(BaseHTTPRequestHandler):
    server: Keys

    def do_GET(self) -> None:
        key = parse_qs(urlsplit(self.path).query)["key"][0]
        asked = (self.headers["Authorization"].removeprefix("Bearer "), key)
        self.server.asked.append(asked)
        if asked[0] == self.server.slow:
            self.server.awaited.wait(20)
        elif sum(credential != self.server.slow for credential, _ in self.server.asked) == 12:
            self.server.awaited.set()
        state = self.server.known.get(asked)
        body = json.dumps({"id": f"task-of-{key}", "status": state, "units": 3} if state else {}).encode()
        self.send_response(200 if state else self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def keys() -> Iterator[Keys]:
    server = Keys()
    yield server
    server.awaited.set()
    server.shutdown()
    server.server_close()


def waiting(keys: Keys, accounts: int = 2, attempts: int = 3, **fields: Any) -> Job:
    """A job that waits in a pool of this upstream, when the database went back a minute ago."""
    job = unlost(keys, accounts, attempts, **fields)
    went_back()
    return job


def unlost(keys: Keys, accounts: int = 2, attempts: int = 3, **fields: Any) -> Job:
    """The same before it went back; several of them go back together."""
    headers = {"Authorization": "'Bearer ' + account.credential"}
    upstream = {"base_url": f"http://127.0.0.1:{keys.server_port}", "headers": headers, **fields.pop("upstream", {})}
    pool = factories.make_pool(accounts=accounts, upstream=upstream, **fields)
    declared = {"mode": "poll", "submit": {"path": "'/tasks'"}, "poll": {**FIND, "path": "'/x'"}, "find": FIND}
    return factories.at("pending", factories.make_job_type(pool, upstream=declared, retry={"attempts": attempts}))


def went_back() -> None:
    restoring.restored(note="test")
    Suspicion.objects.update(since=timezone.now() - timedelta(minutes=1))


def key(job: Job, number: int) -> str:
    return f"job.{job.pk}.a{number}"


def decided(job: Job) -> str:
    return Suspicion.objects.get(job=job).decided


def over(pool: Pool) -> bool:
    Pool.objects.filter(pk=pool.pk).update(quarantined_until=timezone.now())
    return reopening.reopen(pool.pk)
