"""What brings processes to gaps that the ordinary load seldom comes by: a tenant's program of its own, and commands."""

import itertools
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import yaml

from tests.chaos import declared, probed
from tests.chaos.load import SHORT, Log
from tests.chaos.probed import QUEUE, TENANT
from tests.chaos.world import World
from tests.linking import Linking

ANSWER_SECONDS: Final = 6.0
KILL_SECONDS: Final = 8.0  # between two kills: who was killed has come back, and what it left was seen to
LARGE: Final = "x" * 300_000  # more than a row holds
_CHANGES = itertools.count(2)


class Prober:
    """`submit`, `cancel`, `replay`, `upload` as a tenant; what it asks and is answered stands in the clients' log."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.linking = Linking()
        self._log = Log(world.client_log)
        self._keys = itertools.count(1)
        self._killed = 0.0
        self._declare()
        issued = world.web.manage("issue_key", TENANT, QUEUE).stdout.strip().splitlines()[-2:]
        keys = dict(line.split() for line in issued)
        self._clients = {name: self._client(key) for name, key in keys.items()}

    def submit(self, job_type: str, payload: Any, tenant: str = TENANT, **more: Any) -> str:
        """The job; empty when it was not answered, and then it may be there all the same."""
        key = f"{tenant}-{next(self._keys):016d}"
        content = {"type": job_type, "payload": payload, **more}
        about = {"key": key, "type": job_type, "payload": str(payload)[:100]}
        sent = {"headers": {"Idempotency-Key": key}, "json": content}
        return str(self._request("submit", about, "/v1/jobs", tenant=tenant, **sent).get("id", ""))

    def cancel(self, job: str) -> None:
        if job:
            self._request("cancel", {"job": job}, f"/v1/jobs/{job}/cancel")

    def replay(self, job: str) -> None:
        if job:
            self._request("replay", {"job": job}, f"/v1/jobs/{job}/replay")

    def until(self, job: str, *states: str, seconds: float = 8.0) -> str:
        """The job, once it is in one of the states; empty when that takes too long."""
        end = time.monotonic() + seconds
        while job and time.monotonic() < end:
            found = self.world.rows("SELECT state FROM jobs_job WHERE id = %s", job)
            if found and found[0]["state"] in states:
                return job
            time.sleep(0.05)
        return ""

    def upload(self, content: bytes = b"some bytes") -> str:
        """The file; empty when it did not arrive."""
        try:
            answer = self._clients[TENANT].post("/v1/files", content=content, headers={"Content-Type": "text/plain"})
            return str(answer.json().get("id", ""))
        except (httpx.HTTPError, ValueError):
            return ""

    def command(self, *arguments: str) -> bool:
        """A `manage.py` command; False when it was killed. Anything but that, and 0, is a fault."""
        done = self.world.web.manage(*arguments, **declared.credentials(), **probed.credentials())
        assert done.returncode in (0, -signal.SIGKILL), f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.returncode == 0

    def python(self, code: str) -> bool:
        return self.command("shell", "--no-imports", "-c", code)

    def change(self) -> bool:
        """Applies the configuration with something changed in all of its parts."""
        number = next(_CHANGES)
        config = self._config()
        config["tenants"][f"points tenant {number}"] = {"credits": 1}
        config["pools"]["points"]["window"] = number
        config["pools"][f"points pool {number}"] = {"upstream": {"base_url": "http://127.0.0.1:9"}, "accounts": {}}
        return self._apply(config)

    def may_kill_again(self) -> bool:
        return time.monotonic() - self._killed > KILL_SECONDS

    def kill(self, role: str) -> None:
        """This role of each group of workers."""
        self._killed = time.monotonic()
        for name in [name for name in self.world.berths if role in self.world.berths[name].pids()]:
            self.world.send(f"{name}/{role}", signal.SIGKILL)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._log.close()
        self.linking.die()

    def _request(self, act: str, about: Mapping[str, Any], path: str, **more: Any) -> dict[str, Any]:
        tenant = more.pop("tenant", TENANT)
        status, body = None, {}
        try:
            answer = self._clients[tenant].post(path, **more)
            status, body = answer.status_code, answer.json()
        except (httpx.HTTPError, ValueError):
            status, body = None, {}
        line = {
            "at": time.time(),
            "tenant": tenant,
            "act": act,
            "key": "",
            "type": "",
            "payload": None,
            "status": status,
        }
        short = {name: body[name] for name in SHORT if name in body}
        self._log.write({**line, **about, "job": body.get("id") or about.get("job", ""), "answer": short})
        return body if status in (200, 202) else {}

    def _client(self, key: str) -> httpx.Client:
        url, headers = self.world.proxies["client-web"].url, {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=url, headers=headers, timeout=ANSWER_SECONDS)

    def _declare(self) -> None:
        at = f"{self.world.simulators['upstream']}/control/accounts"
        httpx.post(at, json=probed.of_simulator()).raise_for_status()
        assert self._apply(self._config())

    def _config(self) -> dict[str, Any]:
        return probed.config(self.world.proxies["workers-upstream"].url, self.linking.host)

    def _apply(self, config: Mapping[str, Any]) -> bool:
        path = self.world.home / "points.yaml"
        path.write_text(yaml.safe_dump(dict(config)))
        return self.command("apply", str(path))


Provocation = Callable[[Prober], object]
