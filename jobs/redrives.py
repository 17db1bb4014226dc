"""Redrives: dead letters run again one after the other, within a rate, until there are no more or an operator stops it.

The sweep drives them. Each letter is replayed in a transaction that also moves the redrive past it, so a crash neither
loses nor repeats one, and a rate holds over any number of processes. One that is refused stays a dead letter.
"""

import logging
import time
import uuid

from django.conf import settings
from django.db import OperationalError, transaction

from credits.errors import BudgetExceeded, InsufficientCredits, NoWallet, Paced
from jobs import transitions
from jobs.alone import HELD_BY_ANOTHER
from jobs.dead_letters import Filter
from jobs.models import Redrive
from jobs.outage import DATABASE_AWAY
from jobs.queries import dead_letters
from jobs.replays import NotReplayable, VersionChanged
from statemachine.actors import acting_as
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

logger = logging.getLogger(__name__)
LONGEST_SECONDS = 0.5  # of one redrive in one sweep, which has other work
DEFAULT_RATE = 5.0
STOPPED, DONE = Redrive.State.STOPPED, Redrive.State.DONE
# Of amounts and names there are many; the words that are counted are few.
_WHY: dict[type[Exception], str] = {
    InsufficientCredits: "the tenant's credits do not suffice",
    BudgetExceeded: "a budget would be passed",
    Paced: "the tenant's credits are low",
    NoWallet: "the tenant has no wallet",
    VersionChanged: "it had moved on by then",
}


def begin(
    wanted: Filter, rate: float, most: int | None, *, why: str, actor: str, token: str = ""
) -> tuple[Redrive, bool]:
    """∅ → RUNNING: the dead letters that `wanted` means and that have failed by now run again, `rate` a second.

    Inserts one row and locks nothing. A second caller with the same `token` gets the redrive of the first, and False.
    Raises ValueError for a rate or a `most` out of bounds.
    """
    if most is not None and most < 1:
        raise ValueError(f"at least one job runs again; this is {most}")
    if not 0 < rate <= Redrive.MOST_RATE:
        raise ValueError(f"a rate is above 0 and at most {Redrive.MOST_RATE:g} a second; this is {rate:g}")
    told = {"filter": wanted.as_data(), "rate": rate, "most": most, "why": why, "actor": actor}
    redrive, begun = Redrive.objects.get_or_create(token=token or uuid.uuid4().hex, defaults=told)
    if begun:
        logger.info("%s begun: %s, %g a second (%s)", redrive, wanted, rate, why, extra={"actor": actor})
    redrive.refresh_from_db()
    return redrive, begun


def stop(redrive_id: int, by: str) -> bool:
    """RUNNING → STOPPED: when this returns, no further job is replayed by it. False when it had ended.

    Locks the redrive; waits at it for the one replay that may be under way. A second caller finds it stopped.
    """
    stopped = dead_letters.end(redrive_id, STOPPED, by)
    if stopped:
        logger.info("redrive %s stopped", redrive_id, extra={"actor": by})
    return stopped


def drive(redrive_id: int) -> int:
    """RUNNING stays RUNNING, or → DONE: its next dead letters run again, as far as its rate allows. How many.

    Each in a transaction of its own that locks the redrive, with SKIP LOCKED, then what `replay` locks. A second caller
    leaves the redrive to the first, and finds what the first has passed.
    """
    redrive = Redrive.objects.filter(pk=redrive_id, state=Redrive.State.RUNNING).first()
    if redrive is None:
        return 0
    wanted, number = Filter.of_data(redrive.filter), 0
    until, seen = time.monotonic() + LONGEST_SECONDS, (redrive.seen_at, redrive.seen_id)
    while True:
        letters = dead_letters.next_of(wanted.terms(), *seen, redrive.began_at)
        for letter in letters:
            if letter["fits"]:
                moved = _replay(redrive_id, letter)
                if moved is None or time.monotonic() > until:
                    return number + (moved or 0)
                number += moved
        is_last = len(letters) < dead_letters.MOST_READ
        _pass(redrive_id, letters[-1] if letters else None, last=is_last)
        if is_last or time.monotonic() > until:
            return number
        seen = letters[-1]["finished_at"], letters[-1]["id"]


def _replay(redrive_id: int, letter: Row) -> int | None:
    """How many run again by it, 0 or 1; None: not now, or not by this redrive any more."""
    with transaction.atomic():
        redrive = dead_letters.lock(redrive_id)
        if redrive is None:
            return None
        if _is_past(redrive, letter):
            return 0
        if not redrive["may"]:
            return None
        if why := _why_refused(redrive_id, letter):
            dead_letters.refused(redrive_id, letter, why)
            return 0
        crashpoint("redrive.replayed")
        dead_letters.replayed(redrive_id, letter, 2 * settings.SWEEP_SECONDS)
        if redrive["replayed"] + 1 == redrive["most"]:
            dead_letters.end(redrive_id, DONE)
        return 1


def _why_refused(redrive_id: int, letter: Row) -> str:
    """Empty when the letter runs again. Whatever its data provoke, the next ones are not held up."""
    try:
        with acting_as(f"redrive:{redrive_id}"):
            transitions.replay(letter["id"], letter["version"])
    except NotReplayable as why:
        return str(why)
    except tuple(_WHY) as why:
        return _WHY[type(why)]
    except OperationalError as error:
        if getattr(error.__cause__, "pgcode", None) not in HELD_BY_ANOTHER:
            raise
        return "somebody else held it"
    except DATABASE_AWAY:
        raise
    except Exception as error:
        logger.exception("redrive %s: %s could not run again", redrive_id, letter["id"])
        return f"an error of ours: {type(error).__name__}"
    return ""


def _pass(redrive_id: int, letter: Row | None, *, last: bool) -> None:
    """All letters up to this one were looked at; after the last one nothing is left to do."""
    with transaction.atomic():
        redrive = dead_letters.lock(redrive_id)
        if redrive is None:
            return
        if letter is not None and not _is_past(redrive, letter):
            dead_letters.passed(redrive_id, letter)
        if last:
            dead_letters.end(redrive_id, DONE)


def _is_past(redrive: Row, letter: Row) -> bool:
    return redrive["seen_at"] is not None and (redrive["seen_at"], redrive["seen_id"]) >= (
        letter["finished_at"],
        letter["id"],
    )
