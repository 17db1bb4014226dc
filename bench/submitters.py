"""Clients that submit one job after the other, each on a connection and with a key of its own, and note every answer."""

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

ANSWER_SECONDS = 30.0
AGAIN_SECONDS = 0.1
BODY = json.dumps({"type": "render", "payload": {"pages": 1}})
NO_ANSWER = 0
ACCEPTED = {200, 202}  # 200: it had been, by a request whose answer was lost


@dataclass(frozen=True)
class Answered:
    """One request: when it was sent (monotonic seconds), how long it took, and its status (0: none came)."""

    at: float
    ms: float
    status: int
    retry_after: bool
    problem: bool

    @property
    def ended(self) -> float:
        """When the answer was there (monotonic seconds)."""
        return self.at + self.ms / 1000


class Submitters:
    """The clients run while inside; what was not accepted is sent again with the same key."""

    def __init__(self, url: str, keys: list[str], pause_seconds: float) -> None:
        self.address = urlsplit(url).netloc
        self.keys = keys
        self.pause_seconds = pause_seconds
        self.answers: list[Answered] = []
        self.accepted: dict[str, str] = {}
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, args=(key,), daemon=True) for key in keys]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS + 1)
        self.check()

    def check(self) -> None:
        """Raises what ended a client."""
        if self._failure:
            raise RuntimeError("a client failed") from self._failure

    def states(self) -> dict[str, int]:
        """How many of the accepted jobs are in which state."""
        found: Counter[str] = Counter()
        for key in self.keys:
            cursor = ""
            while True:
                connection = http.client.HTTPConnection(self.address, timeout=ANSWER_SECONDS)
                query = f"?limit=100{f'&cursor={cursor}' if cursor else ''}"
                connection.request("GET", f"/v1/jobs{query}", headers={"Authorization": f"Bearer {key}"})
                page = json.loads(connection.getresponse().read())
                connection.close()
                found.update(job["state"] for job in page["data"] if job["id"] in self.accepted)
                if not (cursor := page["next_cursor"] or ""):
                    break
        return dict(found)

    def _run(self, key: str) -> None:
        number = 0
        connection = http.client.HTTPConnection(self.address, timeout=ANSWER_SECONDS)
        try:
            while not self._over.is_set():
                if self._submit(connection, key, f"outage-submit-{number:08}"):
                    number += 1
                    self._over.wait(self.pause_seconds)
                else:
                    self._over.wait(AGAIN_SECONDS)
        except BaseException as error:  # noqa: BLE001  told by `check`
            self._failure = error

    def _submit(self, connection: http.client.HTTPConnection, key: str, idempotency_key: str) -> bool:
        headers = {
            "Authorization": f"Bearer {key}",
            "Idempotency-Key": idempotency_key,
            "Content-Type": "application/json",
        }
        at = time.monotonic()
        try:
            connection.request("POST", "/v1/jobs", BODY, headers)
            response = connection.getresponse()
            body = response.read()
            status, told = response.status, response.headers
        except (OSError, http.client.HTTPException):
            connection.close()
            status, body, told = NO_ANSWER, b"", http.client.HTTPMessage()
        ms = (time.monotonic() - at) * 1000
        problem = told.get("Content-Type", "").startswith("application/problem+json")
        self.answers.append(Answered(at, ms, status, "Retry-After" in told, problem))
        if status in ACCEPTED:
            self.accepted[json.loads(body)["id"]] = key
        elif status not in {NO_ANSWER, 409, 429, 503}:
            raise RuntimeError(f"a submit was answered {status}: {body.decode()}")
        return status in ACCEPTED


def summary(answers: list[Answered]) -> dict[str, Any]:
    """Statuses, and the milliseconds of all answers and of the accepted ones."""
    refused = [each for each in answers if each.status not in ACCEPTED]
    return {
        "answers": len(answers),
        "statuses": {str(status): number for status, number in Counter(each.status for each in answers).items()},
        "refusals_without_problem_or_retry_after": sum(not (each.problem and each.retry_after) for each in refused),
        "ms": _spread([each.ms for each in answers]),
        "accepted_ms": _spread([each.ms for each in answers if each.status in ACCEPTED]),
    }


def _spread(values: list[float]) -> dict[str, float | None]:
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None, "max": None}
    return {
        "p50": round(ordered[len(ordered) // 2], 1),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 1),
        "max": round(ordered[-1], 1),
    }
