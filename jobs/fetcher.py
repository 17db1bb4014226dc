"""The fetching of results in this process: on a loop of its own, a coroutine each, so that no worker waits."""

import asyncio
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any, Final, cast
from uuid import UUID

import aiohttp
from django.conf import settings
from django.db import connection

from jobs import calls, fetching, results
from jobs.flight import Flight
from jobs.queries import fetches
from upstream import links
from upstream.calls import Call
from upstream.result_files import LinkRefused, NoLinks, ResultFiles, compile_result_files, links_again

AT_ONCE: Final = 16  # attempts whose files are on their way; others wait, and are kept
STOP_SECONDS: Final = 5.0
BEATS_PER_LEASE: Final = 3
IN_MEMORY_BYTES: Final = 1_000_000  # of one file; what is beyond waits on disk
_setup = threading.Lock()
_fetcher: "Fetcher | None" = None


def fetch(job_ids: Sequence[UUID]) -> None:
    """Takes up what is due of these jobs and returns at once."""
    for row in fetches.take(job_ids, settings.LEASE_SECONDS):
        _of_this_process().start(
            Flight(row["attempt_id"], row["fence"], row["job_id"], row["resource_id"], row), row["fetch_tries"]
        )


def stop() -> None:
    """Before the process ends."""
    global _fetcher  # noqa: PLW0603  one per process
    with _setup:
        if _fetcher is not None:
            _fetcher.stop()
        _fetcher = None


class Fetcher:
    """A thread with an event loop; it ends with its process, and what it had taken up is taken up by others."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="berth-results", daemon=True)
        self._thread.start()

    def start(self, flight: Flight, tries: int) -> None:
        """Begins to fetch what this attempt owes."""
        asyncio.run_coroutine_threadsafe(self._fetch(flight, tries), self._loop)

    def stop(self) -> None:
        """Leaves what is on its way to others, who take it up within a lease."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _fetch(self, flight: Flight, tries: int) -> None:
        work = asyncio.ensure_future(self._stored(flight))
        beating = asyncio.ensure_future(_beat(flight, tries, work))
        try:
            result = await work
        except asyncio.CancelledError:
            return  # somebody else has taken it up
        except Exception as error:  # noqa: BLE001  whatever kept the files from us is told, and tried again
            verb = fetching.unpaid if _is_dead(error) else fetching.put_off
            await _on_a_thread(verb, flight.attempt_id, flight.fence, tries, _said(error))
        else:
            await _on_a_thread(fetching.paid, flight.attempt_id, tries, result)
        finally:
            beating.cancel()

    async def _stored(self, flight: Flight) -> Any:
        """All files are here before the first is stored: a try that fails stores none."""
        async with self._room:
            call = await _on_a_thread(calls.call_of, flight)
            block = compile_result_files(call.upstream)
            if block is None:
                raise LinkRefused("the type does not say any more where its result lies")
            by_name = flight.row["links"]
            if fetching.is_unread(by_name):
                by_name = links_again(block, call, by_name[0])
            with ExitStack() as closing:
                marks = {}
                for name, (content, came) in (await self._all(block, call, by_name, closing)).items():
                    content.seek(0)
                    row = await _on_a_thread(results.keep, flight.job_id, content, came.size, name, came.content_type)
                    marks[name] = results.mark(row)
            whole = fetching.result_with(flight.row["result"], marks)
            return whole if results.file_of(whole) else await _on_a_thread(results.fitting, flight.job_id, whole)

    async def _all(
        self, block: ResultFiles, call: Call, by_name: dict[str, str], closing: ExitStack
    ) -> dict[str, tuple[IO[bytes], links.Fetched]]:
        if self._session is None:
            self._session = links.client()
        found = {}
        for name, link in by_name.items():
            held = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115  `closing` closes it
            content = cast(IO[bytes], closing.enter_context(held))
            found[name] = (content, await links.fetch(self._session, block, call, link, content))
        return found


async def _beat(flight: Flight, tries: int, work: "asyncio.Future[Any]") -> None:
    """Keeps others from taking it up; stops the work when one has."""
    while True:
        await asyncio.sleep(settings.LEASE_SECONDS / BEATS_PER_LEASE)
        with suppress(Exception):  # the database away: the next beat may come in time
            if not await _on_a_thread(fetches.renew, flight.attempt_id, tries, settings.LEASE_SECONDS):
                work.cancel()
                return


async def _on_a_thread(verb: Any, *arguments: Any) -> Any:
    def run() -> Any:
        try:
            return verb(*arguments)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


def _is_dead(error: Exception) -> bool:
    """Whether it is the link that brings nothing; all else is ours to mend: what is declared, a credential, a storage."""
    return isinstance(error, links.LinkFailed | NoLinks) and not isinstance(error, links.FileTooLong)


def _said(error: Exception) -> str:
    """What our own errors say; of others the type alone, whose message may quote a link or a credential."""
    own = isinstance(error, links.LinkFailed | ValueError)
    return str(error) if own else f"it could not be stored: {type(error).__name__}"


def _of_this_process() -> Fetcher:
    global _fetcher  # noqa: PLW0603  one per process
    with _setup:
        if _fetcher is None:
            _fetcher = Fetcher()
        return _fetcher
