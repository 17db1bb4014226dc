"""Redrives: dead letters run again one after the other, within a rate, until there are no more or an operator stops it.

The sweep drives them. Each letter is replayed in a transaction that also moves the redrive past it, so a crash neither
loses nor repeats one, and a rate holds over any number of processes. One that is refused stays a dead letter.
"""

import logging
import time
import uuid
from datetime import timedelta

from django.conf import settings
from django.db import OperationalError, transaction

from credits.errors import BudgetExceeded, InsufficientCredits, NoWallet, Paced
from jobs import transitions
from jobs.alone import HELD_BY_ANOTHER, failed
from jobs.dead_letters import Filter
from jobs.models import Redrive
from jobs.outage import DATABASE_AWAY
from jobs.queries import dead_letters
from jobs.replays import NotReplayable, VersionChanged
from statemachine.actors import acting_as
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row, now

logger = logging.getLogger(__name__)
LONGEST_SECONDS = 0.5  # of all redrives in one sweep, which has other work
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


class TokenUsed(Exception):
    """The token began `redrive` already, and that has another filter, rate or most."""

    def __init__(self, redrive: Redrive) -> None:
        super().__init__(
            f"not begun: this page has begun {redrive} already, which runs other dead letters, or otherwise"
        )
        self.redrive = redrive


def begin(
    wanted: Filter, rate: float, most: int | None, *, why: str, actor: str, token: str = ""
) -> tuple[Redrive, bool]:
    """∅ → RUNNING: the dead letters that `wanted` means and that have failed by now run again, `rate` a second.

    Inserts one row and locks nothing. A second caller with the same `token` gets the redrive of the first, and False.
    Raises TokenUsed when that one means something else, and ValueError (`rate: …`, `most: …`) for what is out of bounds.
    """
    if most is not None and not 1 <= most <= Redrive.MOST_JOBS:
        raise ValueError(f"most: at least one job runs again, and at most {Redrive.MOST_JOBS:,}; this is {most:,}")
    if not Redrive.LEAST_RATE <= rate <= Redrive.MOST_RATE:
        bounds = f"at least {Redrive.LEAST_RATE:g} and at most {Redrive.MOST_RATE:g} a second"
        raise ValueError(f"rate: it is {bounds}; this is {rate:g}")
    told = {"filter": wanted.as_data(), "rate": rate, "most": most, "why": why, "actor": actor}
    redrive, begun = Redrive.objects.get_or_create(token=token or uuid.uuid4().hex, defaults=told)
    if begun:
        logger.info("%s begun: %s, %g a second (%s)", redrive, wanted, rate, why, extra={"actor": actor})
    redrive.refresh_from_db()
    if not begun and not _is_meant(redrive, wanted, rate, most):
        raise TokenUsed(redrive)
    return redrive, begun


def stop(redrive_id: int, by: str) -> bool:
    """RUNNING → STOPPED: when this returns, no further job is replayed by it. False when it had ended.

    Locks the redrive; waits at it for the replay that may be under way, and for one that locks it before this is woken.
    A second caller finds it stopped.
    """
    stopped = dead_letters.end(redrive_id, STOPPED, by)
    if stopped:
        logger.info("redrive %s stopped", redrive_id, extra={"actor": by})
    return stopped


def drive_due() -> int:
    """All that run and whose rate allows the next, for LONGEST_SECONDS in all; how many jobs run again.

    The one that waited longest comes first, so that each has its turn. Locks what `drive` locks, one after the other; a
    second caller leaves them to the first.
    """
    until, number = time.monotonic() + LONGEST_SECONDS, 0
    for redrive_id in dead_letters.due():
        try:
            number += drive(redrive_id, until)
        except Exception as error:  # whatever the data of one provoke, the others go on
            if isinstance(error, DATABASE_AWAY) and not _is_held(error):
                raise
            failed("drive", redrive_id, dead_letters.postpone)
        if time.monotonic() > until:
            break
    return number


def drive(redrive_id: int, until: float | None = None) -> int:
    """RUNNING stays RUNNING, or → DONE: its next dead letters run again, as far as its rate allows. How many.

    At least one page or one letter, and then on to the monotonic time `until` (LONGEST_SECONDS from now).
    Each in a transaction of its own that locks the redrive, with SKIP LOCKED, then what `replay` locks. A second caller
    leaves the redrive to the first, and finds what the first has passed.
    """
    redrive = Redrive.objects.filter(pk=redrive_id, state=Redrive.State.RUNNING).first()
    if redrive is None:
        return 0
    wanted, number = Filter.of_data(redrive.filter), 0
    until, seen = until or time.monotonic() + LONGEST_SECONDS, (redrive.seen_at, redrive.seen_id)
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
            dead_letters.refused(redrive_id, letter, why, _slack_seconds())
            return 0
        crashpoint("redrive.replayed")
        dead_letters.replayed(redrive_id, letter, _slack_seconds())
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
        if not _is_held(error):
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
            dead_letters.passed(redrive_id, letter, _slack_seconds())
        if last:
            dead_letters.end(redrive_id, DONE)


def _is_meant(redrive: Redrive, wanted: Filter, rate: float, most: int | None) -> bool:
    """Whether it is what is asked for now. `2h` (ago), in a page that is sent twice, has moved on between the two."""
    passed = now() - redrive.began_at + timedelta(seconds=5)
    same = wanted.is_like(Filter.of_data(redrive.filter), passed)
    return same and (redrive.rate, redrive.most) == (rate, most)


def _slack_seconds() -> float:
    """Of a pause between two sweeps so much of the rate is made up for, and not more."""
    return float(2 * settings.SWEEP_SECONDS)


def _is_held(error: BaseException) -> bool:
    """Whether the database is there and only gave up on what somebody else holds."""
    return getattr(error.__cause__, "pgcode", None) in HELD_BY_ANOTHER


def _is_past(redrive: Row, letter: Row) -> bool:
    return redrive["seen_at"] is not None and (redrive["seen_at"], redrive["seen_id"]) >= (
        letter["finished_at"],
        letter["id"],
    )
