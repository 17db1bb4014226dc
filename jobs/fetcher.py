"""The fetching of results in this process: on a loop of its own, a coroutine each, so that no worker waits.

Three kinds of threads: the loop reads links, a few store what came, and one keeps all that is under way from being taken up by
others. A process takes up only what it has room for; what it has not stays due, for another or for later.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connection

from jobs import fetching, results
from jobs.collecting import Collector, is_dead, on_a_thread, said
from jobs.flight import Flight
from jobs.outage import DATABASE_AWAY
from jobs.queries import fetches, missed
from statemachine.crashpoints import crashpoint

AT_ONCE: Final = 8  # attempts whose files are on their way in this process
STOP_SECONDS: Final = 5.0
BEATS_PER_LEASE: Final = 3
LONGEST_TRY_SECONDS: Final = 2 * 3_600.0  # of all files of a result; what hangs must not be kept for ever
logger = logging.getLogger(__name__)
_setup = threading.Lock()
_fetcher: "Fetcher | None" = None


def fetch(job_ids: Sequence[UUID]) -> None:
    """Takes up what is due of these jobs, as far as there is room, and returns at once."""
    _of_this_process().take(job_ids)


def stop() -> None:
    """Before the process ends."""
    global _fetcher  # noqa: PLW0603  one per process
    with _setup:
        if _fetcher is not None:
            _fetcher.stop()
        _fetcher = None


@dataclass(frozen=True, slots=True)
class _Try:
    """A take-up on its way; `taken` is its number, and its fence."""

    flight: Flight
    taken: int
    work: "Future[None]"


class Fetcher:
    """It ends with its process, and what it had taken up is taken up by others."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._collector = Collector(AT_ONCE)
        self._taking = threading.Lock()
        self._under_way: dict[int, _Try] = {}
        self._more = False  # something was due for which there was no room
        self._stopping = threading.Event()
        targets = {"results": self._loop.run_forever, "results-leases": self._keep}
        self._own = [
            threading.Thread(target=target, name=f"berth-{name}", daemon=True) for name, target in targets.items()
        ]
        for thread in self._own:
            thread.start()

    def take(self, job_ids: Sequence[UUID]) -> None:
        """One at a time, so that two tasks do not take the same room."""
        with self._taking:
            room = 0 if self._stopping.is_set() else AT_ONCE - len(self._under_way)
            self._more = self._more or len(job_ids) > room
            for flight in fetching.take(job_ids, room) if room > 0 else []:
                self._start(flight)

    def stop(self) -> None:
        """Leaves what is on its way to others, who take it up at once."""
        with self._taking:
            self._stopping.set()
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._own:
            thread.join(STOP_SECONDS)
        if not self._loop.is_running():
            self._loop.close()

    def _start(self, flight: Flight) -> None:
        taken = flight.row["fetch_tries"]
        crashpoint("fetch.taken")
        work = asyncio.run_coroutine_threadsafe(self._try(flight, taken), self._loop)
        self._under_way[flight.attempt_id] = _Try(flight, taken, work)
        work.add_done_callback(lambda work: self._over(flight.attempt_id, taken, work))

    def _over(self, attempt_id: int, taken: int, work: "Future[None]") -> None:
        """Also where the same attempt was taken up anew by this process, which then is another try."""
        error = None if work.cancelled() else work.exception()
        if error is not None:  # it is taken up anew when its lease is over
            traced = None if isinstance(error, DATABASE_AWAY) else error
            logger.error("what came of attempt %s's files could not be kept", attempt_id, exc_info=traced)
        known = self._under_way.get(attempt_id)
        if known is not None and known.taken == taken:
            del self._under_way[attempt_id]
        if self._more and not self._stopping.is_set():
            self._more = False
            with suppress(RuntimeError):  # it is being stopped
                asyncio.run_coroutine_threadsafe(on_a_thread(self._take_more), self._loop)

    def _take_more(self) -> None:
        try:
            self.take(missed.jobs_to_fetch())
        except Exception:  # the sweep looks each second
            logger.exception("what else is to be fetched is not known")

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._collector.close()

    async def _try(self, flight: Flight, taken: int) -> None:
        try:
            async with asyncio.timeout(LONGEST_TRY_SECONDS):
                result, rows = await self._collector.result_of(flight)
        except asyncio.CancelledError:
            if self._stopping.is_set():
                await on_a_thread(fetching.left, flight.attempt_id, taken)
            return  # else somebody else has taken it up
        except Exception as error:  # noqa: BLE001  whatever kept the files from us is told, and tried again
            verb = fetching.unpaid if is_dead(error) else fetching.put_off
            await on_a_thread(verb, flight, taken, said(error))
        else:
            crashpoint("fetch.collected")
            if not await on_a_thread(fetching.paid, flight.attempt_id, taken, result):
                await on_a_thread(results.give_up, rows)  # another try was first, and has files of its own

    def _keep(self) -> None:
        """Keeps others from taking up what is under way; stops the work of what one has taken up all the same."""
        while not self._stopping.wait(settings.LEASE_SECONDS / BEATS_PER_LEASE):
            tries = dict(self._under_way)
            if not tries:
                continue
            with suppress(Exception):  # the database away: the next beat may come in time
                ours = fetches.renew({key: each.taken for key, each in tries.items()}, settings.LEASE_SECONDS)
                for key in tries.keys() - ours:
                    tries[key].work.cancel()
            connection.close()


def _of_this_process() -> Fetcher:
    global _fetcher  # noqa: PLW0603  one per process
    with _setup:
        if _fetcher is None:
            _fetcher = Fetcher()
        return _fetcher
