"""What upstream accounts have left, by their provider's own word: asked, taken as a reading, doubted when far off.

That a provider refuses a job for want of credits is another thing: it is an answer about that job, and moves no balance.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import uuid_utils.compat

from credits import pricing, upstream_accounts
from credits.upstream_accounts import Read
from jobs import journal
from jobs.outage import DATABASE_AWAY
from jobs.queries import balances
from pool.secrets import SecretUnreadable, open_credential
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row
from upstream.balances import Said, ask
from upstream.calls import Call

DEADLINE_SECONDS = 30.0  # of one round of asking
SHARE = 0.2  # of what is posted: a reading further off is doubted, where the pool says nothing else
LEAST = 10 * pricing.MICRO  # and never for less

logger = logging.getLogger(__name__)
_unanswered: dict[int, float] = {}  # account → when this process may ask it again (monotonic)


@dataclass(frozen=True, slots=True)
class Concluded:
    """What came of asking about one account: a reading, or why there is none."""

    account: Row
    read: Read | None
    problem: str = ""


def ask_due() -> list[Concluded]:
    """Asks those whose newest reading is older than their pool wants; who does not answer is left in peace for as long.

    Two rounds at once ask twice, and each takes its own reading. Holds no transaction while it asks.
    """
    now = time.monotonic()
    for account_id in [account_id for account_id, until in _unanswered.items() if until <= now]:
        del _unanswered[account_id]
    found = ask_all(balances.due(list(_unanswered)))
    for concluded in found:
        if concluded.read is None:
            every_ms = concluded.account["upstream"]["balance"]["every_ms"]
            _unanswered[concluded.account["id"]] = now + every_ms / 1000
    return found


def ask_all(accounts: Sequence[Row], *, book: bool = False, most: int | None = None) -> list[Concluded]:
    """Asks now (rows of `balances`) and takes what they say as readings; `book`: however far off they are."""
    calls, unasked = [], {}
    for account in accounts:
        try:
            calls.append(_call(account))
        except SecretUnreadable as error:
            unasked[account["id"]] = Said(None, str(error))
    asked = [account for account in accounts if account["id"] not in unasked]
    said = {a["id"]: s for a, s in zip(asked, ask(calls, DEADLINE_SECONDS), strict=True)} | unasked
    crashpoint("balance.said", calls)
    return [_concluded(account, said[account["id"]], book, most) for account in accounts]


def take(
    account: Mapping[str, Any],
    said: int,
    key: str,
    *,
    book: bool = False,
    most: int | None = None,
    before: tuple[int, int] | None = None,
) -> Read:
    """A reading of the account (`id`, `pool_id`, `posted`, `most`, `name`, `pool`), once per key.

    Booked unless it is further off than `most` (micro-credits; None: as the pool says) and not `book`. See
    upstream_accounts.read for locks and errors.
    """
    bound = None if book else alarm(account, account["posted"]) if most is None else most
    read = upstream_accounts.read(account["pool_id"], account["id"], said, key, bound, before=before)
    crashpoint("balance.taken")
    if not read.booked:
        journal.not_booked(account, f"{pricing.short_text(read.drift)} off")
    return read


def alarm(account: Mapping[str, Any], posted: int) -> int:
    """How far off a reading may be, in micro-credits: as the pool's `balance` says, else a share of what is posted."""
    declared = account["most"]
    return max(LEAST, int(SHARE * abs(posted))) if declared is None else int(declared)


def is_alarming(account: Row) -> bool:
    """Whether the newest reading (of `balances.standing`) was not booked. One that somebody booked is accepted."""
    return account["read_at"] is not None and not account["booked"]


def _concluded(account: Row, said: Said, book: bool, most: int | None) -> Concluded:
    try:
        return _conclude(account, said, book, most)
    except DATABASE_AWAY:
        raise
    except Exception as error:  # whatever is wrong with one account, the others are read
        logger.exception("what %s has left could not be taken", account["name"])
        return Concluded(account, None, str(error))


def _conclude(account: Row, said: Said, book: bool, most: int | None) -> Concluded:
    if said.left is None:
        journal.not_read(account, said.problem)
        return Concluded(account, None, said.problem)
    key = f"asked:{uuid_utils.compat.uuid7()}"
    before = (account["posted"], account["held"])
    return Concluded(account, take(account, said.left, key, book=book, most=most, before=before))


def _call(account: Row) -> Call:
    """Of a call, what asking for a balance needs. Raises SecretUnreadable."""
    return Call(
        key="",
        payload=None,
        job={},
        tenant={},
        account={
            "name": account["account"],
            "credential": open_credential(account["sealed_credential"], account["pool_id"], account["account"]),
            "labels": account["labels"],
            "vars": account["vars"],
        },
        base_url=account["base_url"] or account["upstream"].get("base_url", ""),
        upstream=account["upstream"],
    )
