"""What the upstream tells us by itself: the address it calls, and what its word means for the attempt.

The address is made of the attempt's own dispatch key and a token of it, so it is known before anything is stored, is the same
whenever that key is sent, also after a restore, speaks of this attempt alone, and is accepted also before the answer to our
call has come.
"""

from functools import lru_cache
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.crypto import constant_time_compare, salted_hmac

from jobs import inquiry, results
from jobs.findings import Finding
from jobs.flight import Flight
from jobs.queries import attempts, flights
from jobs.queries.inputs import unfinished
from jobs.signals import announce_attempts, attempt_told
from jobs.states import ACCEPTED, UNKNOWN
from statemachine.crashpoints import crashpoint
from upstream.adapters import Adapter, adapter, hear
from upstream.answer import Answer
from upstream.calls import Call
from upstream.followed import OTHER_REFERENCE

PATH: Final = "/v1/upstream"
MOST_TOLD: Final = 100  # words of the upstream about one attempt that are kept
LONGEST_ID: Final = 18  # digits; more would be no id the database knows
_SALT: Final = "berth.callback"


class AttemptLost(Exception):
    """The address is one of ours, and its job goes on, but there is no such attempt: a restore lost it, and it is taken up
    again, or its key sent again, when its pool opens. Whoever tells us is to repeat it.
    """


def address(flight: Flight) -> str:
    """Where the upstream calls about this attempt; empty where it need not, or nobody said how Berth is reached."""
    if not settings.PUBLIC_URL or flight.ways.mode != "callback":
        return ""
    return f"{settings.PUBLIC_URL}{PATH}/{flight.row['dispatch_key']}/{_token(flight.row['dispatch_key'], settings.SECRET_KEY)}"


def addressed(attempt: str, token: str) -> Flight | None:
    """The attempt of this address, which names its dispatch key, or its id as addresses of before do; None when there is none,
    or the token is not its own. Raises AttemptLost.
    """
    if attempt.isascii() and attempt.isdigit():
        flight = flights.of_attempt(int(attempt)) if len(attempt) <= LONGEST_ID else None
        return flight if flight and _is_own(flight.row["dispatch_key"], token) else None
    if not _is_own(attempt, token):
        return None
    flight = flights.of_key(attempt)
    if flight is None and unfinished({_job_of(attempt)}):
        raise AttemptLost(attempt)
    return flight


def told(flight: Flight, call: Call, answer: Answer) -> bool:
    """PROCESSING stays PROCESSING: what the upstream said is kept; where it can be asked, that decides, else its word does.

    False when it speaks of other work than this attempt's. Of an attempt that has ended its word is evidence, and news only
    where nobody knew how it ended. It counts whatever is done meanwhile: sent again or restored, the attempt has another
    fence, and the word is of that. Locks the attempt, then its session; of a word that comes twice the second finds the
    attempt ended.
    """
    outcome = hear(_adapter(str(call.upstream.get("adapter") or "http")), call, answer)
    if outcome.error_code == OTHER_REFERENCE:
        return False
    crashpoint("callback.heard")
    finding = Finding(flight, outcome, "callback")
    ended, full = flight.row["ended_at"] is not None, attempts.told(flight.attempt_id) >= MOST_TOLD
    if ended and (full or flight.row["verdict"] != UNKNOWN):
        attempts.append_evidence([] if full else [finding.evidence()])
    elif not ended and _can_be_asked(flight, outcome.reference):
        if not _ask_now(finding, kept=not full):  # it ended meanwhile, and does not open again
            return told(_as_ended(flight), call, answer)
    elif not full or outcome.over:
        results.learn([finding])
    return True


def _can_be_asked(flight: Flight, told: str) -> bool:
    """Whether its word can be confirmed with what is known, its word included."""
    known = {**flight.row, "reference": flight.row["reference"] or told, "phase": ACCEPTED, "asks_failed": 0}
    return flight.ways.confirms and inquiry.way(known, flight.ways, may_send_again=False) != "wait"


def _ask_now(finding: Finding, *, kept: bool) -> bool:
    """False when there is nothing to ask for any more; then nothing was written."""
    flight, outcome = finding.flight, finding.outcome
    with transaction.atomic():
        if not (news := attempts.news(flight.attempt_id, outcome.reference)):
            return False
        attempts.append_evidence([finding.evidence()] if kept else [])
        crashpoint("callback.noted")
        announce_attempts(attempt_told, [row for row in news if row["lease_until"] is None])
    return True


def _as_ended(flight: Flight) -> Flight:
    ended = flights.of_attempt(flight.attempt_id)
    if ended is None or ended.row["ended_at"] is None:
        raise AttemptLost(flight.row["dispatch_key"])
    return ended


def _is_own(dispatch_key: str, token: str) -> bool:
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return any(constant_time_compare(_token(dispatch_key, secret), token) for secret in secrets)


def _job_of(dispatch_key: str) -> UUID:
    """Of a key that we made: `job.<id>.a<number>`."""
    return UUID(dispatch_key.split(".")[1])


def _token(dispatch_key: str, secret: str) -> str:
    return salted_hmac(_SALT, dispatch_key, secret=secret, algorithm="sha256").hexdigest()


@lru_cache(maxsize=16)
def _adapter(name: str) -> Adapter:
    return adapter(name)
