"""Jobs that commits which were lost may have sent: their upstreams are asked, and what is known decides.

Asked for is each dispatch key that a job might have had, at every account of its pool: keys are known where they were
sent. What an upstream knows is taken up as an attempt of that number, and found out like any other.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from credits import upstream_accounts
from credits.upstream_accounts import AttemptHold
from jobs import calls, restoring
from jobs.flight import Flight
from jobs.outage import DATABASE_AWAY
from jobs.queries import claim, endings
from jobs.queries import restoring as queries
from jobs.states import JOB, NOT_EXECUTED, UNKNOWN
from jobs.suspicion import Suspicion
from jobs.transitions import REVIEW_SECONDS
from pool.secrets import SecretUnreadable
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row
from upstream.calls import Call, Outcome
from upstream.declared import as_written
from upstream.finding import find
from upstream.ways import Ways

ROUND_SECONDS = 5.0  # of asking, in one sweep
MOST_CALLS = 200  # of one round
BUSY_PAUSE_MS = 500  # until a session of its account may be free
PAUSE_MS, LONGEST_PAUSE_MS = 2_000, 60_000  # between askings that told nothing
LOOK_AGAIN_MS = 2_000  # at a job that is being found out
Answer = tuple[Row, int, Outcome]  # of an account, for a number

logger = logging.getLogger(__name__)


def inquire() -> int:
    """Asks upstreams for the keys that suspected jobs might have had, and decides where that can be. How many were decided.

    Each is asked for at every account of its pool, since keys are known where they were sent. Locks suspicions with SKIP
    LOCKED and puts their time off before anybody is asked, outside any transaction; a second caller takes others.
    """
    with transaction.atomic():
        due = queries.due()
        asked, decided = _sorted(due)
    answers = _ask(asked)
    return decided + sum(_conclude(row, answers[row["job_id"]]) for row in asked)


def untellable(pool_id: int, impatient: bool) -> list[UUID]:
    """Undecided jobs of the pool that its upstream cannot be asked for; `impatient`: all that it has not told of yet.

    What is decided without asking is decided first.
    """
    while rows := queries.undecided(pool_id):
        known = [row for row in rows if _word(row, impatient)]
        for row in known:
            queries.decide(_word(row, impatient), [row["job_id"]])
        if not known:
            break
    return [row["job_id"] for row in rows if impatient or (row["state"] == "pending" and not _ways(row).finds)]


def _ways(row: Row) -> Ways:
    return as_written(row["pool_upstream"], row["type_upstream"]).ways


def _word(row: Row, impatient: bool = False) -> str:
    """What is decided of a job by what its type declares; empty: ask, or wait."""
    ways = _ways(row)
    if row["state"] in JOB.terminal:
        return Suspicion.Decided.ENDED
    if row["state"] != "pending" or (ways.finds and not impatient):
        return ""
    if row["delivery"] == "at_least_once":
        return Suspicion.Decided.MAY_REPEAT
    # Keys are known to the account that they were sent to; with several the next sending may meet another.
    return Suspicion.Decided.SAME_KEY if ways.idempotent and row["accounts"] == 1 else ""


def _sorted(due: Sequence[Row]) -> tuple[list[Row], int]:
    """Those to be asked for now, and how many are decided without; the rest is looked at later."""
    asked: list[Row] = []
    later: list[dict[str, Any]] = []
    calls_left = MOST_CALLS
    for row in due:
        if word := _word(row):
            queries.decide(word, [row["job_id"]])
            continue
        ways, size = _ways(row), row["accounts"] * row["max_attempts"]
        early_ms = ways.find_after_ms - row["age_ms"]
        asks = row["state"] == "pending" and ways.finds and early_ms <= 0 and (size <= calls_left or not asked)
        if asks:
            asked.append(row)
            calls_left -= size
        later.append({"job_id": row["job_id"], "pause_ms": _pause_ms(row, early_ms, asks), "failed": int(asks)})
    queries.later(json.dumps(later, default=str))
    return asked, len(due) - len(later)


def _pause_ms(row: Row, early_ms: float, asks: bool) -> float:
    """Asked for now: until nobody can be at it any more."""
    if asks:
        return float(min(PAUSE_MS * 2 ** min(row["asks_failed"], 10), LONGEST_PAUSE_MS) + ROUND_SECONDS * 1_000)
    return float(min(max(1.0, early_ms), LOOK_AGAIN_MS) if early_ms > 0 else LOOK_AGAIN_MS)


def _ask(rows: Sequence[Row]) -> dict[UUID, list[Answer]]:
    """By job what each account says of each key. As many keys as the type allows tries; see docs/adr/0021."""
    of_pool: dict[int, list[Row]] = {}
    for account in queries.accounts(sorted({row["pool_id"] for row in rows})) if rows else ():
        of_pool.setdefault(account["pool_id"], []).append(account)
    answers: dict[UUID, list[Answer]] = {row["job_id"]: [] for row in rows}
    wanted: list[tuple[UUID, Row, int, Call]] = []
    for row in rows:
        numbers = range(row["attempts"] + 1, row["attempts"] + 1 + row["max_attempts"])
        for account, number in ((a, n) for a in of_pool.get(row["pool_id"], ()) for n in numbers):
            try:
                wanted.append((row["job_id"], account, number, _call(row, account, number)))
            except SecretUnreadable as error:
                unread = Outcome(over=False, verdict="unknown", error_code="credential", error_message=str(error))
                answers[row["job_id"]].append((account, number, unread))
    outcomes = find([call for *_, call in wanted], ROUND_SECONDS)
    for (job_id, account, number, _), outcome in zip(wanted, outcomes, strict=True):
        answers[job_id].append((account, number, outcome))
    return answers


def _call(row: Row, account: Row, number: int) -> Call:
    beside = {"dispatch_key": f"job.{row['job_id']}.a{number}", "number": number, "reference": ""}
    return calls.call_of(Flight(0, 0, row["job_id"], 0, {**row, **account, **beside}, "find"))


def _conclude(row: Row, answers: Sequence[Answer]) -> int:
    """1 when the answers decide; what is unclear is asked again."""
    known = [(number, account) for account, number, said in answers if said.verdict not in (NOT_EXECUTED, UNKNOWN)]
    if known:
        return int(_taken_up(row["job_id"], *min(known, key=lambda found: found[0])))
    if answers and all(said.over and said.verdict == NOT_EXECUTED for _, _, said in answers):
        queries.decide(Suspicion.Decided.NEVER_SENT, [row["job_id"]])
        return 1
    return 0


def _taken_up(job_id: UUID, number: int, account: Row) -> bool:
    try:
        return _take_up(job_id, number, account)
    except DATABASE_AWAY:
        raise
    except Exception:  # the others are to be decided all the same; it is asked for again
        logger.exception("job %s is known to its upstream, and could not be taken up", job_id)
        return False


def _take_up(job_id: UUID, number: int, account: Row) -> bool:
    """PENDING → ASSIGNED → PROCESSING: the upstream has it under this number, so that attempt is opened on its account.

    False when no session of the account is free yet, or the job was cancelled. Locks job, session, the account's balance;
    a second caller finds the job processing.
    """
    with transaction.atomic():
        endings.lock([job_id])
        if (job := queries.stands(job_id)) is None:
            return False
        if (session := queries.session_of(account["account_id"])) is None:
            queries.later(json.dumps([{"job_id": job_id, "pause_ms": BUSY_PAUSE_MS, "failed": -1}], default=str))
            return False
        queries.give_turn(job_id, job["turn"])
        fence = queries.skip_numbers(job, session, number - 1)
        pair = {"job_id": job_id, "turn": job["turn"], "run": job["run"], "number": number}
        pair |= {"resource_id": session["id"], "account_id": account["account_id"], "fence": fence}
        crashpoint("inquire.numbered")
        JOB.announce("assign", claim.take(job["pool_id"], [pair], settings.LEASE_SECONDS))
        crashpoint("inquire.assigned")
        holds = [AttemptHold(account["account_id"], job_id, job["run"], number, job["cost"])] if account["pays"] else []
        if not upstream_accounts.hold(job["pool_id"], holds, REVIEW_SECONDS):
            raise RuntimeError(f"account {account['account']} cannot pay for what it has begun: take a reading")
        (attempt_id,) = restoring.take_for_sent([job_id])
        crashpoint("inquire.taken_up")
        queries.decide(Suspicion.Decided.FOUND, [job_id], attempt_id)
    return True
