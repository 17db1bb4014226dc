"""Jobs that commits which were lost may have sent: their upstreams are asked, and what is known decides.

Asked for is each dispatch key that a job might have had, at every account of its pool: keys are known where they were
sent. What an upstream knows is taken up as an attempt of that number, and found out like any other.
"""

import logging
import math
from collections.abc import Sequence
from uuid import UUID

from django.conf import settings
from django.db import transaction

from credits import upstream_accounts
from credits.upstream_accounts import AttemptHold
from jobs import calls, restoring
from jobs.flight import Flight
from jobs.models import Suspicion
from jobs.outage import DATABASE_AWAY
from jobs.queries import claim, endings, suspicions
from jobs.states import FAILED, JOB, NOT_EXECUTED, PROVEN, UNKNOWN
from jobs.transitions import REVIEW_SECONDS
from pool import transitions as sessions
from pool.secrets import SecretUnreadable
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row
from upstream.calls import Call, Outcome
from upstream.declared import as_written
from upstream.finding import AT_ONCE, find
from upstream.ways import Ways, ways

ROUND_SECONDS = 5.0  # of asking, in one sweep
LONGEST_ROUND_SECONDS = 30.0  # for a job that has many keys or accounts: the sweep of its process waits for it
MOST_CALLS = 200  # of one round
BUSY_PAUSE_MS = 500  # until a session of its account may be free
PAUSE_MS, LONGEST_PAUSE_MS = 2_000, 60_000  # between askings that decided nothing
LOOK_AGAIN_MS = 2_000  # at a job that is being found out
IN_VAIN = 10  # askings in a row, some minutes, that decided nothing: it cannot be asked for
Answer = tuple[Row, int, Outcome]  # of an account, for a number

logger = logging.getLogger(__name__)


def inquire() -> int:
    """Asks upstreams for the keys that suspected jobs might have had, and decides where that can be. How many were decided.

    Each is asked for at every account of its pool, since keys are known where they were sent. Locks suspicions with SKIP
    LOCKED and puts their time off before anybody is asked, outside any transaction; a second caller takes others.
    """
    with transaction.atomic():
        due = suspicions.due()
        decided = _decide(due)
        left = [row for row in due if row["job_id"] not in decided]
        asked = _to_be_asked(left)
        ids, seconds = {row["job_id"] for row in asked}, _round_seconds(asked)
        suspicions.later([_later(row, seconds, row["job_id"] in ids) for row in left])
    answers = _ask(asked, seconds)
    return len(decided) + sum(_conclude(row, answers[row["job_id"]]) for row in asked)


def decide_unasked(pool_id: int, in_vain: float = math.inf) -> int:
    """Decides about jobs of the pool what needs no asking, or is asked for no longer; of up to `suspicions.MOST`, how many.

    `in_vain`: so many askings that decided nothing are enough, and what is being found out is waited for no longer. Locks the
    suspicions by id; a second caller finds them decided.
    """
    return len(_decide(suspicions.undecided(pool_id), in_vain))


def untellable(pool_id: int, in_vain: float = math.inf) -> list[Row]:
    """Undecided jobs of the pool that wait, and of which nobody can tell whether they were sent; `in_vain` as above. Rows have
    job_id and since, when it was suspected.
    """
    rows = [row for row in suspicions.undecided(pool_id) if row["state"] == "pending"]
    return [row for row in rows if not _word(row, in_vain) and not _may_be_asked(row, in_vain)]


def _decide(rows: Sequence[Row], in_vain: float = math.inf) -> set[UUID]:
    by_word: dict[str, list[Row]] = {}
    for row in rows:
        if word := _word(row, in_vain):
            by_word.setdefault(word, []).append(row)
    for word, decided in by_word.items():
        suspicions.decide(word, decided)
    return {row["job_id"] for decided in by_word.values() for row in decided}


def _word(row: Row, in_vain: float) -> str:
    """What is decided of a job by what its type declares; empty: ask, or wait."""
    if row["state"] in JOB.terminal:
        return Suspicion.Decided.ENDED
    if row["state"] != "pending":
        return "" if in_vain == math.inf else Suspicion.Decided.UNDER_WAY
    if _may_be_asked(row, in_vain):
        return ""
    if row["delivery"] == "at_least_once":
        return Suspicion.Decided.MAY_REPEAT
    # Keys are known to the account that they were sent to; with several the next sending may meet another.
    deduplicated = _ways(row).idempotent and row["accounts"] == 1 and not row["called"]
    return Suspicion.Decided.SAME_KEY if deduplicated else ""


def _may_be_asked(row: Row, in_vain: float = math.inf) -> bool:
    return _ways(row).finds and row["asks_failed"] < in_vain and row["called"] != Suspicion.Called.DENIED


def _ways(row: Row) -> Ways:
    """One whose upstream is declared so that nobody can read it cannot be asked for."""
    try:
        return as_written(row["pool_upstream"], row["type_upstream"]).ways
    except Exception:  # whatever is declared: the others are to be asked for all the same
        logger.exception("what job type %s declares of its upstream cannot be read", row["type"])
        return ways({})


def _to_be_asked(rows: Sequence[Row]) -> list[Row]:
    """As many as fit into a round, but at least one; they come in turns of their pools."""
    asked: list[Row] = []
    calls_left = MOST_CALLS
    for row in rows:
        size = row["accounts"] * row["max_attempts"]
        may = row["state"] == "pending" and _may_be_asked(row) and _early_ms(row) <= 0
        if may and (size <= calls_left or not asked):
            asked.append(row)
            calls_left -= size
    return asked


def _early_ms(row: Row) -> float:
    """So long its upstream may not know yet what was sent to it last, or something may still be sent by a worker of before."""
    return float(_ways(row).find_after_ms - row["quiet_ms"])


def _round_seconds(rows: Sequence[Row]) -> float:
    """All answers for a job are needed at once, so a round lasts longer for one that has more keys or accounts."""
    size: float = sum(row["accounts"] * row["max_attempts"] for row in rows) / MOST_CALLS
    of_one_account: float = max((row["max_attempts"] for row in rows), default=0) / AT_ONCE
    return min(ROUND_SECONDS * max(1.0, size, of_one_account), LONGEST_ROUND_SECONDS)


def _later(row: Row, seconds: float, asks: bool) -> Row:
    """Asked for now: until nobody can be at it any more.

    An asking counts as in vain unless it decides, or only a session was missing: also one that tells of a key, and not of
    those after it.
    """
    if asks:
        pause_ms = min(PAUSE_MS * 2 ** min(row["asks_failed"], 10), LONGEST_PAUSE_MS) + seconds * 1_000
    else:
        early_ms = _early_ms(row)
        pause_ms = min(max(1.0, early_ms), LOOK_AGAIN_MS) if early_ms > 0 else LOOK_AGAIN_MS
    return {"job_id": row["job_id"], "since": row["since"], "pause_ms": pause_ms, "failed": int(asks)}


def _ask(rows: Sequence[Row], seconds: float) -> dict[UUID, list[Answer]]:
    """By job what each account says of each key. As many keys as the type allows tries; see docs/adr/0021."""
    of_pool: dict[int, list[Row]] = {}
    for account in suspicions.accounts(sorted({row["pool_id"] for row in rows})) if rows else ():
        of_pool.setdefault(account["pool_id"], []).append(account)
    answers: dict[UUID, list[Answer]] = {row["job_id"]: [] for row in rows}
    wanted: list[tuple[UUID, Row, int, Call]] = []
    for row in rows:
        numbers = range(row["attempts"] + 1, row["attempts"] + 1 + row["max_attempts"])
        for account, number in ((a, n) for a in of_pool.get(row["pool_id"], ()) for n in numbers):
            call = _call(row, account, number)
            if isinstance(call, Call):
                wanted.append((row["job_id"], account, number, call))
            else:
                answers[row["job_id"]].append((account, number, call))
    outcomes = find([call for *_, call in wanted], seconds)
    for (job_id, account, number, _), outcome in zip(wanted, outcomes, strict=True):
        answers[job_id].append((account, number, outcome))
    return answers


def _call(row: Row, account: Row, number: int) -> Call | Outcome:
    """The call, or why it cannot be made."""
    beside = {"dispatch_key": f"job.{row['job_id']}.a{number}", "number": number, "reference": ""}
    # It is asked for as it is declared, whatever comes of that.
    beside |= {"declared_as_called": True, "declared_where_called": True}
    try:
        return calls.call_of(Flight(0, 0, row["job_id"], 0, {**row, **account, **beside}, "find"))
    except SecretUnreadable as error:
        return Outcome(over=False, verdict="unknown", error_code="credential", error_message=str(error))
    except DATABASE_AWAY:
        raise
    except Exception as error:  # whatever the data of one job provoke: the others are to be asked for all the same
        logger.exception("job %s cannot be asked for at account %s", row["job_id"], account["account"])
        return Outcome(over=False, verdict="unknown", error_code="unaskable", error_message=str(error))


def _conclude(row: Row, answers: Sequence[Answer]) -> int:
    """1 when the answers decide; what is unclear is asked again.

    A proven success is taken up, else the highest number that is known, once none above it can be (a number was sent
    only when those before it had come to nothing), or IN_VAIN askings in a row have not told of those above it.
    What was called otherwise before may be known there: then it says nothing that nobody knows it here.
    """
    known = [answer for answer in answers if _is_known(answer[2])]
    untold = [number for _, number, said in answers if not _is_known(said) and not _is_denied(said)]
    if not known:
        if answers and not untold and row["called"]:
            suspicions.denied([row])
            return 0
        if answers and not untold:
            suspicions.decide(Suspicion.Decided.NEVER_SENT, [row])
        return int(bool(answers) and not untold)
    account, number, said = max(known, key=lambda answer: (answer[2].verdict in PROVEN, answer[1]))
    if said.verdict in PROVEN or row["asks_failed"] >= IN_VAIN or max(untold, default=0) <= number:
        return int(_taken_up(row, number, account, answers))
    return 0


def _is_known(said: Outcome) -> bool:
    return said.verdict not in (NOT_EXECUTED, UNKNOWN)


def _is_denied(said: Outcome) -> bool:
    return said.over and said.verdict == NOT_EXECUTED


def _taken_up(row: Row, number: int, account: Row, answers: Sequence[Answer]) -> bool:
    try:
        return _take_up(row, number, account, answers)
    except DATABASE_AWAY:
        raise
    except Exception:  # the others are to be decided all the same; it is asked for again
        logger.exception("job %s is known to its upstream, and could not be taken up", row["job_id"])
        return False


def _take_up(row: Row, number: int, account: Row, answers: Sequence[Answer]) -> bool:
    """PENDING → ASSIGNED → PROCESSING: the attempt of that number, whose commits were lost, is opened again and found out,
    on a session that rests where no other is free.

    False when no session of the account is free yet, or the job was cancelled. Locks the job, a session of the account
    (passing over those that others have), the pool when its virtual time goes on, the account's balance, then the
    suspicion, and inserts the attempts; a second caller finds the job processing.
    """
    job_id: UUID = row["job_id"]
    with transaction.atomic():
        endings.lock([job_id])
        if (job := suspicions.stands(row)) is None:
            return False
        if (session := suspicions.session_of(account["account_id"])) is None:
            busy = -1 if suspicions.gets_free(account["account_id"]) else 0
            suspicions.later([{"job_id": job_id, "since": row["since"], "pause_ms": BUSY_PAUSE_MS, "failed": busy}])
            return False
        if session["rests"]:
            sessions.wake([session["id"]])
        suspicions.give_turn(job_id, job["turn"])
        skipped = [_skipped(n, answers) for n in range(job["attempts"] + 1, number)]
        fence = suspicions.skip_numbers(job, session, skipped)
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
        suspicions.decide(Suspicion.Decided.FOUND, [row], attempt_id)
    return True


def _skipped(number: int, answers: Sequence[Answer]) -> Row:
    """What is written of a number before the one that is taken up: only what was said of it at every account."""
    said = [outcome for _, of, outcome in answers if of == number]
    if all(_is_denied(outcome) for outcome in said):
        verdict, why = NOT_EXECUTED, "the upstream knows nothing of it"
    elif any(outcome.verdict == FAILED for outcome in said):
        verdict, why = FAILED, "the upstream says that it failed"
    else:
        verdict, why = UNKNOWN, "another number decides about the job"
    return {"number": number, "verdict": verdict, "message": f"its commits were lost; {why}"}
