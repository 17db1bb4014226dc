"""The spike: every tenant submits its jobs at once over HTTP, then all are followed to their end."""

import asyncio
import time
from collections.abc import Callable

import aiohttp
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.demo.clients import ANSWER_SECONDS, Outcome, Tenant
from bench.demo.world import World

LONGEST_SECONDS = 600
QUIET_SECONDS = 3.0
LOOK_SECONDS = 0.5


def run(world: World, keys: dict[str, str], console: Console) -> Outcome:
    """Submits the scenario's work and waits until every accepted job is terminal, or ten minutes have passed."""
    return asyncio.run(_run(world, keys, console))


async def _run(world: World, keys: dict[str, str], console: Console) -> Outcome:
    outcome = Outcome(run=f"{time.time_ns():x}")
    total = world.scenario.jobs
    columns = [TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        accepted, executed = (progress.add_task(text, total=total) for text in ("accepted (202)", "executed upstream"))

        def show(executions: int) -> None:
            progress.update(accepted, completed=outcome.submitted)
            progress.update(executed, completed=executions)

        async with aiohttp.ClientSession(base_url=world.web_url, timeout=timeout) as session:
            tenants = {name: Tenant(session, keys[name], outcome) for name in world.scenario.tenants}
            begun = time.monotonic()

            async def submit_all() -> None:
                works = world.scenario.tenants
                await asyncio.gather(*(tenant.submit(works[name]) for name, tenant in tenants.items()))
                outcome.submit_seconds = time.monotonic() - begun

            submitting = asyncio.create_task(submit_all())
            await _follow(world, submitting, outcome, show)
            await submitting
            await _collect(world, list(tenants.values()), outcome, begun, show)
            outcome.seconds = time.monotonic() - begun
    return outcome


async def _follow(
    world: World, submitting: "asyncio.Task[None]", outcome: Outcome, show: Callable[[int], None]
) -> None:
    """Watches the simulator's book until as many executions as jobs are in it, or nothing moves any more."""
    end, seen, moved = time.monotonic() + LONGEST_SECONDS, -1, time.monotonic()
    while time.monotonic() < end:
        done = await _executions(world)
        show(done)
        if done != seen:
            seen, moved = done, time.monotonic()
        if submitting.done() and (done >= outcome.submitted or time.monotonic() - moved > QUIET_SECONDS):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _collect(
    world: World, tenants: list[Tenant], outcome: Outcome, begun: float, show: Callable[[int], None]
) -> None:
    """Reads every tenant's jobs until all are terminal."""
    while True:
        await asyncio.gather(*(tenant.read() for tenant in tenants))
        show(await _executions(world))
        if outcome.ended == outcome.submitted or time.monotonic() - begun > LONGEST_SECONDS:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _executions(world: World) -> int:
    return int((await asyncio.to_thread(world.simulator_report))["executions"])
