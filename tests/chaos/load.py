"""Tenants' programs: they submit with idempotency keys, ask, cancel now and then, and repeat what was not answered.

Now and then they ask whether something is newer than what they know, and for a job that is another tenant's. Each request and
what came of it is a line of a log:
`{"at": unix seconds, "tenant", "act": submit|cancel|get, "key", "type", "payload", "unless": the version in If-None-Match, or
null, "status": number, or null when cut, "job": id or "", "answer": a short document; of a 404 the whole}`.
"""

import json
import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from tests.chaos.declared import POOR, TYPES

ANSWER_SECONDS: Final = 6.0  # a program's patience with one request
REPEAT_SECONDS: Final = 60.0  # how long it repeats a submit; then it gives the key up
PROGRAMS: Final = 6  # of each tenant: a slow answer then keeps none of them from its next submit
POOR_PART: Final = 0.25  # of the pace of others: most of its submits are refused
FINAL: Final = range(200, 500)  # a status that repeating would not change, but 429
NO_BODY: Final = 304
NOT_FOUND: Final = 404
SHORT: Final = ("state", "version", "code")
# How often, after a submit.
ASKS: Final = 0.3
OF_THEM_UNLESS: Final = 0.5  # that say what they know
CANCELS: Final = 0.05
STRAYS: Final = 0.05  # that ask for, or want to cancel, what is another tenant's


class Log:
    """One line for each request, whoever makes it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def write(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


class Program(threading.Thread):
    """One program of a tenant: a submit each `every` seconds, and what it does beside that by its dice."""

    def __init__(
        self,
        log: Log,
        tenant: str,
        client: httpx.Client,
        *,
        types: Sequence[str],
        every: float,
        dice: random.Random,
        newest: dict[str, str],
    ) -> None:
        super().__init__(name=f"program of {tenant}", daemon=True)
        self.log, self.tenant, self.client, self.types, self.every, self.dice = log, tenant, client, types, every, dice
        self.newest = newest  # tenant → the job it was answered with last; of all programs
        self.stopped = threading.Event()
        self.known: deque[dict[str, Any]] = deque(maxlen=30)

    def run(self) -> None:
        due = time.monotonic() + self.dice.random() * self.every
        while not self.stopped.wait(max(0.0, due - time.monotonic())):
            # What a fault kept it from is not made up for: the load is as steady after it as before.
            due = max(due + self.every, time.monotonic())
            self._submit()
            if self.known and self.dice.random() < ASKS:
                self._ask("get", self.dice.choice(self.known), self.dice.random() < OF_THEM_UNLESS)
            if self.known and self.dice.random() < CANCELS:
                self._ask("cancel", self.known[-1])
            if self.dice.random() < STRAYS:
                self._stray()
        self.client.close()

    def _submit(self) -> None:
        """One submit, repeated with its key until something final is answered."""
        wanted = {
            "key": f"{self.dice.getrandbits(64):016x}",
            "type": self.dice.choice(self.types),
            "payload": {"n": self.dice.randrange(1_000_000)},
        }
        end = time.monotonic() + REPEAT_SECONDS
        while time.monotonic() < end:
            status, body = self._request("submit", wanted, "POST", "/v1/jobs")
            if status in (200, 202):
                self.known.append({**wanted, "job": body.get("id", ""), "version": body.get("version")})
                self.newest[self.tenant] = body.get("id", "")
            if status in FINAL and status != 429:
                return
            time.sleep(self.dice.uniform(0.1, 0.5))

    def _ask(self, act: str, about: dict[str, Any], unless: bool = False) -> None:
        """`unless`: only for what is newer than what was told last."""
        path = f"/v1/jobs/{about['job']}"
        method, path = ("GET", path) if act == "get" else ("POST", f"{path}/cancel")
        status, body = self._request(act, about, method, path, unless=about["version"] if unless else None)
        if status in (200, 202):
            about["version"] = body.get("version")

    def _stray(self) -> None:
        """Asks for another tenant's newest job, or wants it cancelled."""
        others = [job for tenant, job in list(self.newest.items()) if tenant != self.tenant and job]
        if others:
            act = self.dice.choice(("get", "cancel"))
            self._ask(act, {"key": "", "type": "", "payload": None, "job": self.dice.choice(others), "version": None})

    def _request(
        self, act: str, about: Mapping[str, Any], method: str, path: str, *, unless: int | None = None
    ) -> tuple[int | None, dict[str, Any]]:
        """What was answered: a status and a document; no status when the answer did not arrive whole."""
        more: dict[str, Any] = {}
        if act == "submit":
            content = {"type": about["type"], "payload": about["payload"]}
            more = {"headers": {"Idempotency-Key": about["key"]}, "json": content}
        if unless is not None:
            more = {"headers": {"If-None-Match": f'"{unless}"'}}
        status, body = None, {}
        try:
            answer = self.client.request(method, path, **more)
            status, body = answer.status_code, {} if answer.status_code == NO_BODY else answer.json()
        except (httpx.HTTPError, ValueError):
            status, body = None, {}
        self._note(act, about, unless, status, body)
        return status, body

    def _note(self, act: str, about: Mapping[str, Any], unless: int | None, status: int | None, body: Any) -> None:
        asked = {name: about[name] for name in ("key", "type", "payload")}
        short = body if status == NOT_FOUND else {name: body[name] for name in SHORT if name in body}
        if body.get("credits"):
            short["charged"] = body["credits"]["charged"]
        line = {"at": time.time(), "tenant": self.tenant, "act": act, **asked, "unless": unless, "status": status}
        self.log.write({**line, "job": body.get("id") or about.get("job", ""), "answer": short})


class Load:
    """All programs of all tenants; `rate` is what they submit in a second, the poor one's beside it."""

    def __init__(self, url: str, keys: Mapping[str, str], log: Path, *, rate: float, seed: int) -> None:
        self._url, self._keys, self._path, self.rate, self._seed = url, keys, log, rate, seed
        self._log: Log | None = None
        self.programs: list[Program] = []
        self._newest: dict[str, str] = {}
        self._made = 0  # also of earlier times: each has dice of its own

    def begin(self, types: Sequence[str] = TYPES) -> None:
        """From now on, until `end`."""
        self._log = self._log or Log(self._path)
        paying = PROGRAMS * len([tenant for tenant in self._keys if tenant != POOR])
        for tenant, key in self._keys.items():
            every = paying / self.rate / (POOR_PART if tenant == POOR else 1.0)
            for number in range(PROGRAMS):
                client = httpx.Client(
                    base_url=self._url, headers={"Authorization": f"Bearer {key}"}, timeout=ANSWER_SECONDS
                )
                dice = random.Random(f"{self._seed} {tenant} {number} {self._made}")
                self._made += 1
                of_all = {"types": types, "newest": self._newest}
                self.programs.append(Program(self._log, tenant, client, every=every, dice=dice, **of_all))
        for program in self.programs:
            if not program.ident:
                program.start()

    def end(self) -> None:
        """No new submit; those that are not answered are repeated until they are."""
        for program in self.programs:
            program.stopped.set()
        for program in self.programs:
            program.join()
        self.programs.clear()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
