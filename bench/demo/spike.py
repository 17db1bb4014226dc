"""The spike: every tenant submits its jobs at once over HTTP, then all are followed to their end."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.demo.scenario import Work
from bench.demo.world import World

LONGEST_SECONDS = 600
QUIET_SECONDS = 3.0
TERMINAL = {"completed", "failed", "cancelled"}


@dataclass
class Outcome:
    """What the clients saw: jobs accepted, how each ended, and how long each waited for its start (milliseconds)."""

    accepted: set[str] = field(default_factory=set)
    states: Counter[str] = field(default_factory=Counter)
    waits_ms: list[float] = field(default_factory=list)
    submit_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def submitted(self) -> int:
        """Jobs that were answered 202."""
        return len(self.accepted)


def run(world: World, keys: dict[str, str], console: Console) -> Outcome:
    """Submits the scenario's work and waits until every accepted job is terminal, or ten minutes have passed."""
    return asyncio.run(_run(world, keys, console))


async def _run(world: World, keys: dict[str, str], console: Console) -> Outcome:
    outcome = Outcome()
    total = world.scenario.jobs
    columns = [TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    timeout = aiohttp.ClientTimeout(total=60)
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        accepted, executed = (progress.add_task(text, total=total) for text in ("accepted (202)", "executed upstream"))
        async with aiohttp.ClientSession(base_url=world.web_url, timeout=timeout) as client:
            begun = time.monotonic()

            async def submit_all() -> None:
                tenants = world.scenario.tenants.items()
                await asyncio.gather(*(_submit(client, keys[name], works, outcome) for name, works in tenants))
                outcome.submit_seconds = time.monotonic() - begun

            submitting = asyncio.create_task(submit_all())
            await _follow(world, submitting, outcome, lambda done: _show(progress, accepted, executed, outcome, done))
            await submitting
            await _collect(client, keys, outcome, begun)
            outcome.seconds = time.monotonic() - begun
    return outcome


async def _submit(client: aiohttp.ClientSession, key: str, works: list[Work], outcome: Outcome) -> None:
    """One tenant's program: it submits one job after the other, and repeats with the same key when no answer comes."""
    run = f"{time.time_ns():x}"
    for work in works:
        for number in range(work.jobs):
            body = {"type": work.job_type, "payload": work.payload}
            headers = {
                "Authorization": f"Bearer {key}",
                "Idempotency-Key": f"spike-{run}-{work.job_type}-{number:06}",
            }
            while True:
                try:
                    async with client.post("/v1/jobs", json=body, headers=headers) as answer:
                        if answer.status == 202:
                            outcome.accepted.add((await answer.json())["id"])
                            break
                        if answer.status not in {409, 429, 503}:
                            raise RuntimeError(f"submit was answered {answer.status}: {await answer.text()}")
                except (aiohttp.ClientError, TimeoutError):
                    pass
                await asyncio.sleep(0.2)


async def _follow(world: World, submitting: "asyncio.Task[None]", outcome: Outcome, show: Any) -> None:
    """Watches the simulator's book until as many executions as jobs are in it, or nothing moves any more."""
    end, seen, moved = time.monotonic() + LONGEST_SECONDS, -1, time.monotonic()
    while time.monotonic() < end:
        done = (await asyncio.to_thread(world.simulator_report))["executions"]
        show(done)
        if done != seen:
            seen, moved = done, time.monotonic()
        if submitting.done() and (done >= outcome.submitted or time.monotonic() - moved > QUIET_SECONDS):
            return
        await asyncio.sleep(0.5)


def _show(progress: Progress, accepted: Any, executed: Any, outcome: Outcome, done: int) -> None:
    progress.update(accepted, completed=outcome.submitted)
    progress.update(executed, completed=done)


async def _collect(client: aiohttp.ClientSession, keys: dict[str, str], outcome: Outcome, begun: float) -> None:
    """Reads every tenant's jobs until all are terminal."""
    while True:
        pages = await asyncio.gather(*(_jobs_of(client, key) for key in keys.values()))
        jobs = [job for page in pages for job in page if job["id"] in outcome.accepted]
        open_jobs = [job for job in jobs if job["state"] not in TERMINAL]
        if not open_jobs or time.monotonic() - begun > LONGEST_SECONDS:
            break
        await asyncio.sleep(0.5)
    outcome.states = Counter(job["state"] for job in jobs)
    outcome.waits_ms = [_milliseconds(job["created_at"], job["started_at"]) for job in jobs if job["started_at"]]


async def _jobs_of(client: aiohttp.ClientSession, key: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    cursor = ""
    while True:
        query = {"limit": "100", **({"cursor": cursor} if cursor else {})}
        async with client.get("/v1/jobs", params=query, headers={"Authorization": f"Bearer {key}"}) as answer:
            page = await answer.json()
        jobs += page["data"]
        cursor = page.get("next_cursor") or ""
        if not cursor:
            return jobs


def _milliseconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000
