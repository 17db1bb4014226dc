"""The files of one result: each is read from its link, stored, and let go before the next; what waits on disk is bounded."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import IO, Any, Final, cast

from django.db import connection

from jobs import calls, fetching, results
from jobs.flight import Flight
from pool.secrets import SecretUnreadable
from statemachine.sql import Row
from upstream import links
from upstream.calls import Call
from upstream.expressions import ExpressionError
from upstream.result_files import LinkRefused, NoLinks, ResultFiles, compile_result_files, links_again
from upstream.spec import SpecError

IN_MEMORY_BYTES: Final = 1_000_000  # of one file; what is beyond waits on disk
MOST_RESULT_BYTES: Final = 500_000_000  # of all files of a result, or one file of its type's `max` where that is more
MOST_WAITING_BYTES: Final = 2_000_000_000  # of all files that this process reads at once


class Collector:
    """On the loop of a `Fetcher`. A storage that hangs keeps threads of its own, and nobody from the database."""

    def __init__(self, at_once: int) -> None:
        self._storing = ThreadPoolExecutor(at_once, thread_name_prefix="berth-results-store")
        self._room = Room(MOST_WAITING_BYTES)
        self._client: links.Client | None = None

    async def close(self) -> None:
        self._storing.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            await self._client.close()

    async def result_of(self, flight: Flight) -> tuple[Any, list[Row]]:
        """The result with our copies in it, and their rows. What a try has stored that fails is given up."""
        call = await on_a_thread(calls.call_of, flight)
        block = compile_result_files(call.upstream)
        if block is None:
            raise LinkRefused("the type does not say any more where its result lies")
        by_name = flight.row["links"]
        if fetching.is_unread(by_name):
            by_name = links_again(block, call, by_name[0])
        rows: dict[str, Row] = {}
        try:
            left = max(MOST_RESULT_BYTES, block.max_bytes)
            for name, link in by_name.items():
                rows[name] = await self._stored(flight, block, call, name, link, left=left)
                left -= rows[name]["size"]
            result = fetching.result_with(flight.row["result"], {name: results.mark(row) for name, row in rows.items()})
            if results.file_of(result) or (one := await self._whole(flight, result)) is None:
                return result, list(rows.values())
            return results.mark(one), [*rows.values(), one]
        except BaseException:
            await asyncio.shield(on_a_thread(results.give_up, list(rows.values())))
            raise

    async def _whole(self, flight: Flight, result: Any) -> Row | None:
        return await asyncio.wrap_future(self._storing.submit(_closing, results.whole, flight.job_id, result))

    async def _stored(self, flight: Flight, block: ResultFiles, call: Call, name: str, link: str, *, left: int) -> Row:
        async with self._room.of(min(block.max_bytes, left)):
            if self._client is None:
                self._client = links.Client()
            with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as held:
                content = cast(IO[bytes], held)
                came = await links.fetch(self._client, block, call, link, content, most=left)
                content.seek(0)
                return await self._kept(flight, content, came, name)

    async def _kept(self, flight: Flight, content: IO[bytes], came: links.Fetched, name: str) -> Row:
        arguments = (flight.job_id, content, came.size, name, came.content_type)
        keeping = self._storing.submit(_closing, results.keep, *arguments)
        try:
            return await asyncio.shield(asyncio.wrap_future(keeping))
        except asyncio.CancelledError:
            # The thread goes on, and fails when its source is closed; if it has all of it by now, nobody wants it.
            keeping.cancel()
            keeping.add_done_callback(_given_up)
            raise


class Room:
    """So many bytes for all; who wants more than is left waits, and who wants more than there is has all of it."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def of(self, wanted: int) -> AsyncIterator[None]:
        """In the order of asking, so that a large one is not passed for ever."""
        size = min(wanted, self._most)
        async with self._turn:
            while self._left < size:
                self._freed.clear()
                await self._freed.wait()
            self._left -= size
        try:
            yield
        finally:
            self._left += size
            self._freed.set()


async def on_a_thread(verb: Callable[..., Any], *arguments: Any) -> Any:
    """On one of the loop's own threads: what asks the database and no storage."""
    return await asyncio.to_thread(_closing, verb, *arguments)


def _closing(verb: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return verb(*arguments)
    finally:
        connection.close()


def _given_up(keeping: "Future[Row]") -> None:
    if not keeping.cancelled() and keeping.exception() is None:
        _closing(results.give_up, [keeping.result()])


def is_dead(error: Exception) -> bool:
    """Whether it is the link that brings nothing; all else is ours to mend: what is declared, a credential, a storage."""
    return isinstance(error, links.LinkFailed | NoLinks) and not isinstance(error, links.FileTooLong)


def said(error: Exception) -> str:
    """What our own errors say; of others the type alone, whose message may quote a link or a credential."""
    if isinstance(error, TimeoutError):
        return "the result was not whole in time"
    if isinstance(error, ExpressionError):
        return "a header could not be made"  # its message may quote what a header is made of
    own = isinstance(error, links.LinkFailed | LinkRefused | NoLinks | SpecError | SecretUnreadable)
    return str(error) if own else f"it could not be stored: {type(error).__name__}"
