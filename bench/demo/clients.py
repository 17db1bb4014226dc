"""The tenants' programs: they submit with idempotency keys, and ask again when no answer or a passing refusal comes."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.demo.scenario import Work

ANSWER_SECONDS = 60
PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
NO_ANSWER = "no answer"
TERMINAL = {"completed", "failed", "cancelled"}
# What a program does well to send again: a conflict with itself, a full line, and whatever ails the server.
_PASSING = {409, 429, 500, 502, 503, 504}


class Refused(Exception):
    """The answer is a no that asking again would not change."""


@dataclass
class Outcome:
    """What the clients saw. Times of waiting in milliseconds; `answers` counts what had to be asked again, by status."""

    run: str
    accepted: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    submit_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def submitted(self) -> int:
        """Jobs that were accepted."""
        return len(self.accepted)

    @property
    def ended(self) -> int:
        """Accepted jobs in a terminal state."""
        return sum(self.states[state] for state in TERMINAL)

    @property
    def unasked(self) -> int:
        """Jobs of this run that no client was told of: one submit had become two jobs."""
        return len(self.jobs.keys() - self.accepted)

    @property
    def states(self) -> Counter[str]:
        """How the accepted jobs stand, as last read."""
        return Counter(job["state"] for job in self._own())

    @property
    def errors(self) -> Counter[str]:
        """Why accepted jobs did not complete."""
        return Counter(job["error"]["code"] for job in self._own() if job["error"])

    @property
    def started(self) -> list[dict[str, Any]]:
        """The accepted jobs that were started."""
        return [job for job in self._own() if job["started_at"]]

    def _own(self) -> list[dict[str, Any]]:
        return [job for job_id, job in self.jobs.items() if job_id in self.accepted]


class Tenant:
    """One tenant's program, with its key."""

    def __init__(self, session: aiohttp.ClientSession, key: str, outcome: Outcome) -> None:
        self._session, self._outcome = session, outcome
        self._authorization = {"Authorization": f"Bearer {key}"}

    async def submit(self, works: Iterable[Work]) -> None:
        """Submits one job after the other; a type that is refused is given up, the others go on."""
        for work in works:
            for number in range(work.jobs):
                body = {"type": work.job_type, "payload": work.payload, "metadata": {"demo": self._outcome.run}}
                key = f"demo-{self._outcome.run}-{work.job_type}-{number:06}"
                try:
                    job = await self._asked("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": key})
                except Refused as refusal:
                    self._outcome.refused[str(refusal)] += work.jobs - number
                    break
                self._outcome.accepted.add(job["id"])

    async def read(self) -> None:
        """Reads this run's jobs; they are the newest of the tenant."""
        query = {"limit": "100"}
        while True:
            page = await self._asked("GET", "/v1/jobs", params=query)
            own = [job for job in page["data"] if job["metadata"].get("demo") == self._outcome.run]
            self._outcome.jobs.update({job["id"]: job for job in own})
            if len(own) < len(page["data"]) or not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    async def _asked(self, method: str, path: str, **arguments: Any) -> Any:
        """The document in the answer, asked for until one comes. Raises Refused.

        A submit is answered 202; 200 when it is a repeat and its job has ended meanwhile.
        """
        headers = {**self._authorization, **arguments.pop("headers", {})}
        while True:
            pause = PAUSE_SECONDS
            try:
                async with self._session.request(method, path, headers=headers, **arguments) as answer:
                    if answer.status in {200, 202}:
                        return await answer.json()
                    if answer.status not in _PASSING:
                        raise Refused(f"{answer.status} {(await answer.text())[:300]}")
                    self._outcome.answers[str(answer.status)] += 1
                    told = answer.headers.get("Retry-After", "")
                    pause = min(float(told), LONGEST_PAUSE_SECONDS) if told.isdigit() else pause
            except (aiohttp.ClientError, TimeoutError):
                self._outcome.answers[NO_ANSWER] += 1
            await asyncio.sleep(pause)
