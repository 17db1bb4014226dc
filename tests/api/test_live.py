"""Long polls between real processes: woken by Redis, found in the database, bounded, and never worse than asking."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from django.db import connection

from jobs import redis_hints, transitions
from jobs.models import Job
from tests import db, factories
from tests.api.conftest import Caller
from tests.api.servers import WebAndLive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
T = TypeVar("T")
Answer = tuple[int, dict[str, Any], float]


class Program:
    """A tenant's program, from outside."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str) -> Answer:
        """Status, document and how long it took."""
        begun = time.monotonic()
        async with self.session.get(path) as response:
            return response.status, json.loads(await response.read()), time.monotonic() - begun

    async def waits(self, job: Job, query: str) -> "asyncio.Task[Answer]":
        """A request that waits by now."""
        task = asyncio.create_task(self.get(f"/v1/jobs/{job.pk}?{query}"))
        await asyncio.sleep(0.4)
        assert not task.done(), task.result()
        return task


@asynccontextmanager
async def program(servers: WebAndLive, caller: Caller) -> AsyncIterator[Program]:
    headers = {"Authorization": f"Bearer {caller.key}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(servers.urls["web"], headers=headers, connector=connector) as session:
        yield Program(session)


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, 60))


async def apart(verb: Callable[[], Any]) -> Any:
    """A verb on a thread of its own, with its own connection."""

    def act() -> Any:
        try:
            return verb()
        finally:
            connection.close()

    return await asyncio.to_thread(act)


def test_waiting_ends_when_the_job_has_a_higher_version(servers: WebAndLive, caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)

    async def story() -> Answer:
        async with program(servers, caller) as ours:
            waiting = await ours.waits(job, "wait=20&after=1")
            await apart(lambda: transitions.assign(job.pool_id))
            await apart(lambda: redis_hints.announce([{"id": job.pk}]))
            return await waiting

    status, document, seconds = run(story())
    assert (status, document["state"], document["version"]) == (200, "assigned", 2)
    assert seconds < 5


def test_without_a_version_it_ends_when_the_job_has_ended(servers: WebAndLive, caller: Caller) -> None:
    job = factories.at("assigned", tenant=caller.tenant)

    async def story() -> Answer:
        async with program(servers, caller) as ours:
            waiting = await ours.waits(job, "wait=20")
            flight = await apart(lambda: factories.dispatch(job))
            await apart(lambda: redis_hints.announce([{"id": job.pk}]))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await apart(lambda: factories.learn(flight, factories.SUCCESS))
            await apart(lambda: transitions.finish([job.pk]))
            return await waiting  # found by looking, should Redis say nothing

    status, document, _ = run(story())
    assert (status, document["state"], document["result"]) == (200, "completed", factories.SUCCESS.result)


def test_what_redis_did_not_tell_is_found_within_a_second_or_two(servers: WebAndLive, caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)

    async def story() -> Answer:
        async with program(servers, caller) as ours:
            waiting = await ours.waits(job, "wait=20&after=1")
            await apart(lambda: db.execute("UPDATE jobs_job SET version = version + 1 WHERE id = %s", [job.pk]))
            return await waiting

    status, document, seconds = run(story())
    assert (status, document["version"]) == (200, 2)
    assert seconds < 5


def test_when_nothing_happens_the_job_is_told_as_it_is(servers: WebAndLive, caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)

    async def story() -> Answer:
        async with program(servers, caller) as ours:
            return await ours.get(f"/v1/jobs/{job.pk}?wait=1&after=1")

    status, document, seconds = run(story())
    assert (status, document["version"]) == (200, 1)
    assert 1 <= seconds < 5


def test_nobody_waits_for_what_is_over_absent_or_anothers(
    servers: WebAndLive, caller: Caller, caller_of: Callable[..., Caller]
) -> None:
    ended, foreign = factories.at("completed", tenant=caller.tenant), factories.at("pending")

    async def story() -> list[Answer]:
        async with program(servers, caller) as ours:
            paths = [f"/v1/jobs/{ended.pk}?wait=20", f"/v1/jobs/{foreign.pk}?wait=20", "/v1/jobs/nothing?wait=20",
                     f"/v1/jobs/{ended.pk}?wait=20&after=0&bla=1"]  # fmt: skip
            return [await ours.get(path) for path in paths]

    answers = run(story())
    assert [status for status, _, _ in answers] == [200, 404, 404, 422]
    assert max(seconds for _, _, seconds in answers) < 5


def test_one_key_may_wait_two_hundred_times_and_is_then_answered_at_once(servers: WebAndLive, caller: Caller) -> None:
    job = factories.at("pending", tenant=caller.tenant)

    async def story() -> tuple[int, int]:
        async with program(servers, caller) as ours:
            waiting = [asyncio.create_task(ours.get(f"/v1/jobs/{job.pk}?wait=25&after=1")) for _ in range(210)]
            done: set[asyncio.Task[Answer]] = set()
            pending = set(waiting)
            while len(done) < 10:
                done, pending = await asyncio.wait(waiting, timeout=1)
            await asyncio.sleep(0.5)
            early = sum(task.done() for task in waiting)
            await apart(lambda: transitions.cancel(job.pk))
            answers = await asyncio.gather(*pending)
            return early, sum(document["state"] == "cancelled" for _, document, _ in answers)

    assert run(story()) == (10, 200)


def test_with_live_gone_the_answer_comes_without_waiting(tmp_path: Path, caller: Caller) -> None:
    servers = WebAndLive(tmp_path)
    job = factories.at("pending", tenant=caller.tenant)

    async def story() -> list[Answer]:
        async with program(servers, caller) as ours:
            waiting = await ours.waits(job, "wait=25&after=1")
            await asyncio.to_thread(servers.stop, "live")
            return [await waiting, await ours.get(f"/v1/jobs/{job.pk}?wait=25&after=1")]

    try:
        answers = run(story())
    finally:
        servers.stop_all()
    assert [(status, document["version"]) for status, document, _ in answers] == [(200, 1), (200, 1)]
    assert answers[1][2] < 5


def test_connections_go_back_to_the_pool_after_each_request(servers: WebAndLive, caller: Caller) -> None:
    """Four threads share two connections: one that kept its own would leave others without."""
    job_type = factories.make_job_type()

    async def story() -> list[int]:
        body = json.dumps({"type": job_type.name, "payload": {}})

        async with program(servers, caller) as ours:

            async def submit() -> int:
                async with ours.session.post("/v1/jobs", data=body) as response:
                    await response.read()
                    return response.status

            return await asyncio.gather(*[submit() for _ in range(40)])

    assert set(run(story())) == {202}
    assert db.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%' AND pid <> pg_backend_pid()"
                    " AND datname = current_database()") == 0  # fmt: skip


def test_a_chunked_body_is_read_whole_and_a_large_one_refused(servers: WebAndLive, caller: Caller) -> None:
    job_type = factories.make_job_type()

    async def pieces(content: bytes, times: int = 1) -> AsyncIterator[bytes]:
        for _ in range(times):
            yield content

    async def story() -> list[int]:
        body = json.dumps({"type": job_type.name, "payload": {}}).encode()
        statuses = []
        async with program(servers, caller) as ours:
            for sent in (pieces(body), pieces(b" " * 65_536, 32)):
                async with ours.session.post("/v1/jobs", data=sent) as response:
                    statuses.append(response.status)
        return statuses

    assert run(story()) == [202, 413]
