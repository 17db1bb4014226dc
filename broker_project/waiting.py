"""Who waits for which job, and waking them: by Redis as soon as it moved, by the database at the latest a second later."""

import asyncio
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID

import redis.asyncio
from django.conf import settings
from django.db import Error, connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from jobs.outage import Outage
from jobs.queries import reading
from jobs.redis_hints import CHANNEL

logger = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
RECONNECT_SECONDS = 1.0
ANSWER_SECONDS = 1.0
CANCEL_SECONDS = 0.5  # after which a task that goes on is cancelled again
QUIET_SECONDS = 5.0  # then Redis is asked whether it is there


class Wait:
    """One request that waits for one job."""

    def __init__(self) -> None:
        self.seen = 0
        self._woken = asyncio.Event()

    async def moved(self, seen: int, seconds: float) -> None:
        """Returns when the job is said to have moved past version `seen`, or after `seconds`."""
        self.seen = seen
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return
        self._woken.clear()

    def wake(self) -> None:
        """A wake-up that comes while the request is asking counts for its next wait."""
        self._woken.set()


class Waiting:
    """All waits of this process, with the two tasks that wake them."""

    def __init__(self) -> None:
        self._waits: dict[UUID, set[Wait]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="look")
        self._redis = Outage(logger, "Redis", "looking each second instead")
        self._database = Outage(logger, "The database", "those who wait learn nothing new")

    @contextmanager
    def for_job(self, text: str) -> Iterator[Wait]:
        """A wait for the job with this id. What is no id is never woken: web has refused it."""
        wait = Wait()
        try:
            job_id = UUID(text)
        except ValueError:
            yield wait
            return
        self._waits.setdefault(job_id, set()).add(wait)
        try:
            yield wait
        finally:
            self._waits[job_id].discard(wait)
            if not self._waits[job_id]:
                del self._waits[job_id]

    def start(self) -> None:
        """Begins to listen and to look."""
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._look())]

    async def stop(self) -> None:
        """Ends both tasks. A cancel may be lost in them (asyncio.wait_for before Python 3.12), so it is said until they end."""
        left = set(self._tasks)
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def _listen(self) -> None:
        while True:
            client = redis.asyncio.Redis.from_url(
                settings.REDIS_URL,
                socket_connect_timeout=ANSWER_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
            try:
                async with client.pubsub() as subscription:
                    await subscription.subscribe(CHANNEL)
                    await self._hear(subscription)
            except (redis.RedisError, OSError) as error:
                self._redis.noted(error)
                await asyncio.sleep(RECONNECT_SECONDS)
            finally:
                await client.aclose()

    async def _hear(self, subscription: "redis.asyncio.client.PubSub") -> None:
        """Until it breaks. A Redis that has gone deaf looks like one with nothing to say, so after a while it is asked."""
        asked = False
        while True:
            message = await subscription.get_message(timeout=QUIET_SECONDS)
            if message is not None:
                asked = False
                self._redis.over()
                if message["type"] == "message":
                    self._told(message["data"])
            elif asked:
                raise redis.TimeoutError(f"it said nothing for {2 * QUIET_SECONDS:g} s")
            else:
                asked = True
                await subscription.ping()

    def _told(self, data: bytes) -> None:
        try:
            ids = [UUID(text) for text in json.loads(data)]
        except (ValueError, TypeError, AttributeError):
            logger.warning("a message on %s is not a list of ids", CHANNEL)
            return
        for job_id in ids:
            for wait in self._waits.get(job_id, ()):
                wait.wake()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._waits:
                continue
            try:
                versions = await loop.run_in_executor(self._thread, _versions, list(self._waits))
            except Error as error:
                self._database.noted(error)
                continue
            self._database.over()
            for job_id, version in versions.items():
                for wait in self._waits.get(job_id, ()):
                    if version > wait.seen:
                        wait.wake()


def _versions(job_ids: list[UUID]) -> dict[UUID, int]:
    """On a thread of its own; the connection goes back to the pool at once."""
    try:
        return reading.versions(job_ids)
    finally:
        connection.close()
