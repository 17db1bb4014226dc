"""The calls of this process: flights go onto the loop beside the worker, findings come back in small batches."""

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from uuid import UUID

from django.conf import settings
from django.db import DataError, connection

from jobs import asking, callbacks, inputs, results, transitions
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.queries import attempts
from jobs.verdicts import UNREADABLE
from pool.secrets import SecretUnreadable, open_credential
from statemachine.crashpoints import crashpoint
from upstream.calls import Action, Call, ErrorClass, Outcome
from upstream.declared import wants_addresses
from upstream.loop import CallLoop, NotAcceptingError
from upstream.outcomes import UnwritableError

logger = logging.getLogger(__name__)
_setup = threading.Lock()
_loop: "CallLoop[FlightKey] | None" = None
_flying: dict["FlightKey", Flight] = {}

FlightKey = tuple[int, int, Action]  # attempt id, fence, what it is called for


def holder() -> str:
    """Who holds the leases of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def dispatch(job_ids: Sequence[UUID]) -> None:
    """Commits the intent of these assigned jobs, then sends their calls."""
    leased_at = time.monotonic()
    flights = transitions.dispatch(job_ids, holder())
    crashpoint("dispatch.intended", flights)
    send(flights, leased_at)
    crashpoint("dispatch.sent", flights)


def verify(job_ids: Sequence[UUID]) -> None:
    """Asks what became of these calls, sending those again that the upstream deduplicates."""
    leased_at = time.monotonic()
    flights = asking.verify(job_ids, holder())
    crashpoint("verify.taken", flights)
    send(flights, leased_at)


def cancel_upstream(job_ids: Sequence[UUID]) -> None:
    """Asks the upstream to cancel what runs of these jobs."""
    flights = asking.cancel_upstream(job_ids)
    crashpoint("cancel.taken", flights)
    send(flights, time.monotonic())


def in_flight() -> int:
    """Calls of this process that are under way or not recorded yet."""
    return len(_flying)


def send(flights: Sequence[Flight], leased_at: float) -> None:
    """Starts the calls and returns at once; `leased_at` is the monotonic time before their leases were taken.

    What is only asked has no lease: whoever asks a second time changes nothing. One that may not be sent (a sealed credential,
    a file that is gone, a worker that stops) is learned as such. Any other fault is left to its lease, as if its worker
    were lost, and keeps none of the others from being sent.
    """
    crossed = []
    for flight in flights:
        try:
            if not _start(flight, leased_at):
                crossed.append(flight.attempt_id)
        except Exception:  # its lease will end and others find out; the rest of the set must still be sent
            named = {"attempt": flight.attempt_id, "job": str(flight.job_id)}
            logger.exception("call of attempt %s was not started", flight.attempt_id, extra=named)
    if crossed:
        attempts.not_asked(crossed)


def _start(flight: Flight, leased_at: float) -> bool:
    """False when the same is under way already, or being written."""
    key = (*flight.fenced, flight.action)
    if _flying.setdefault(key, flight) is not flight:
        return False
    flies = False
    try:
        call = call_of(flight)
        if flight.action == "submit" and (why := inputs.unsendable(call.payload)):
            _learn([(key, _not_sent(flight, "rejected", *why))])
        else:
            flies = loop().start(key, call, flight.action, repeat=flight.repeat, leased_at=leased_at)
            return flies
    except SecretUnreadable as error:
        _learn([(key, _not_sent(flight, "auth", UNREADABLE, str(error)))])
    except NotAcceptingError as error:
        _learn([(key, _not_sent(flight, "transient", "worker_stopped", str(error)))])
    finally:
        if not flies:  # else its outcome takes it out
            _flying.pop(key, None)
    return True


def loop() -> "CallLoop[FlightKey]":
    """The loop of this process, started with its first call."""
    global _loop  # noqa: PLW0603  one loop per process
    with _setup:
        if _loop is None:
            _loop = CallLoop(_learn, _renew, settings.LEASE_SECONDS, _learn_apart)
        return _loop


def drain() -> None:
    """Warm shutdown: nothing new, what flies may land within DRAIN_SECONDS; the rest is found out by others."""
    if _loop is not None and (left := _loop.drain(settings.DRAIN_SECONDS)):
        logger.warning("%s calls were still in flight; their leases will end and others find out", left)


def _not_sent(flight: Flight, error_class: ErrorClass, code: str, message: str) -> Outcome:
    """Nothing went out this time; an earlier sending of the same key keeps its outcome unknown."""
    unknown = flight.repeat or flight.action != "submit"
    return Outcome(
        over=not unknown,
        verdict="unknown" if unknown else "not_executed",
        error_class=error_class,
        error_code=code,
        error_message=message,
    )


def call_of(flight: Flight, *, to_send: bool = True) -> Call:
    """All that a call of this flight's upstream needs, or only what reading its callback does. Raises SecretUnreadable."""
    row = flight.row
    return Call(
        key=row["dispatch_key"],
        payload=inputs.as_sent(row["payload"], inputs.token_for(flight.job_id), wants_addresses(flight.upstream)),
        job={"id": str(flight.job_id), "type": row["type"], "attempt": row["number"], "metadata": row["metadata"]},
        tenant={"name": row["tenant"]},
        account={
            "name": row["account"],
            "credential": open_credential(row["sealed_credential"], row["pool_id"], row["account"]) if to_send else "",
            "labels": row["labels"],
            "vars": row["vars"],
        },
        base_url=row["base_url"] or flight.upstream.get("base_url", ""),
        upstream=flight.upstream,
        callback_url=callbacks.address(flight),
        reference=row["reference"],
    )


def _learn(outcomes: Sequence[tuple[FlightKey, Outcome]]) -> set[FlightKey]:
    """On the loop's writer thread: what the upstream answered becomes the attempts' ends and doubts.

    Gives the keys of those whose result is to be stored first.
    """
    crashpoint("learn.begun", outcomes)
    try:
        findings = {key: Finding.of_answer(_flying[key], outcome) for key, outcome in outcomes if key in _flying}
        waiting = {id(finding) for finding in results.learn_at_once(list(findings.values()))}
    except (DataError, ValueError, TypeError) as error:
        raise UnwritableError(str(error)) from error
    finally:
        connection.close()
    apart = {key for key, finding in findings.items() if id(finding) in waiting}
    # Whoever takes the same up again meanwhile finds it under way, see `_start`.
    for key in findings.keys() - apart:
        _flying.pop(key, None)
    return apart


def _learn_apart(key: FlightKey, outcome: Outcome) -> None:
    """On threads beside the writer: a result that a row does not hold is stored, then learned."""
    try:
        if key in _flying:
            results.learn([Finding.of_answer(_flying[key], outcome)])
    except DataError as error:  # a storage that is set up wrongly raises what it likes, and may be mended
        raise UnwritableError(str(error)) from error
    finally:
        connection.close()
    _flying.pop(key, None)


def _renew(keys: Sequence[FlightKey]) -> set[FlightKey]:
    """On the loop's heartbeat thread: one statement for all calls that have a lease."""
    try:
        kept = attempts.renew([(attempt_id, fence) for attempt_id, fence, _ in keys], settings.LEASE_SECONDS)
    finally:
        connection.close()
    return {key for key in keys if key[0] in kept}
