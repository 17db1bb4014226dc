"""After a restore or a failover that lost commits: pools are closed until it is known what those commits had begun.

What they sent to upstreams goes on there. So every open attempt is doubted, every job that had not ended is suspected of
having been sent, and no session is given before the longest type of its pool has run. See docs/adr/0021.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction

from jobs.findings import Finding
from jobs.flight import Flight
from jobs.intents import intend
from jobs.models import Redrive
from jobs.queries import attempts, dead_letters, flights, suspicions
from jobs.queries import restoring as queries
from jobs.states import ACCEPTED, CALLING, INTENDED
from pool.models import Restoration
from statemachine.actors import current_actor
from statemachine.crashpoints import crashpoint
from statemachine.patience import patient
from statemachine.sql import Row, now, tell
from upstream.calls import Outcome
from upstream.quantities import counted

CODE = "restored"
_LOST = Outcome(
    over=False,
    verdict="unknown",
    error_code=CODE,
    error_message="commits were lost by a restore; it may have been sent",
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Closed:
    """What `restored` did: pools with the time until which each is closed, attempts whose outcome is doubted, accepted ones
    that are asked for at once, jobs suspected, redrives ended.
    """

    pools: Sequence[Row]
    doubted: int
    accepted: int
    suspected: int
    redrives: int

    def __str__(self) -> str:
        return (
            f"{counted(len(self.pools), 'pool')} closed, {counted(self.doubted, 'attempt')} doubted,"
            f" {self.accepted} asked for at once, {counted(self.suspected, 'job')} suspected,"
            f" {counted(self.redrives, 'redrive')} ended"
        )


def restored(
    *, note: str, went_back_to: datetime | None = None, quiet_since: datetime | None = None, nothing_lost: bool = False
) -> Closed:
    """Nothing that was known before this database went back is trusted any more; one transaction.

    Fences, ids and job versions jump, so that nobody of before can write and no number means two things; calls under way are
    doubted, accepted work is asked for at once. Unless `nothing_lost`, redrives end, attempts that were not sent yet are
    taken for sent, pools closed, jobs suspected, and the API tells of it. `quiet_since`: nothing was sent to an upstream
    after that; None: until now. Locks running redrives by id, then the tables of jobs, attempts, sessions and pools, in this
    order, against other writers; a second caller waits, and closes the pools anew. A writer that holds a session and comes
    for a job may be waiting for us as we for it: Postgres then ends one of the two, and `restored` can be run again.
    """
    with patient(), transaction.atomic():
        tell(CODE)
        queries.take_time()
        # The lost commits had replayed letters that stand as failed here, and nobody asked for these a second time. First,
        # since a redrive locks itself before its jobs.
        ended = 0 if nothing_lost else dead_letters.end_all(Redrive.State.STOPPED, CODE)
        queries.be_alone()
        at = now()
        quiet = min(quiet_since or at, at)
        found = queries.jump(quiet, at)
        by_phase = {phase: [row for row in found if row["phase"] == phase] for phase in (INTENDED, CALLING, ACCEPTED)}
        crashpoint("restored.jumped")
        # Unless nothing was sent any more, an intent of a worker that still lives is sent until its lease ends.
        sending_seconds = 0 if quiet_since else settings.LEASE_SECONDS
        _doubt_sent([row["id"] for row in by_phase[CALLING]], sending_seconds)
        doubted, suspected, pools = len(by_phase[CALLING]), 0, []
        if not nothing_lost:
            suspected = suspicions.suspect()
            crashpoint("restored.suspected")
            doubted += len(take_for_sent([row["job_id"] for row in by_phase[INTENDED]], sending_seconds))
            pools = queries.close_pools(quiet, sending_seconds, note)
            crashpoint("restored.closed")
            known = {"went_back_to": went_back_to, "quiet_since": quiet_since and quiet}
            Restoration.objects.create(at=at, note=note, actor=current_actor(), **known)
    closed = Closed(pools, doubted, len(by_phase[ACCEPTED]), suspected, ended)
    logger.warning("restored by %s: %s; %s", current_actor(), closed, note)
    return closed


def take_for_sent(job_ids: Sequence[UUID], sending_seconds: float = 0) -> list[int]:
    """ASSIGNED → PROCESSING without a call, since commits that were lost may have made it; ids of the attempts.

    `sending_seconds`: so long somebody may still make it. Within the caller's transaction; locks jobs, attempts, sessions. A
    second caller finds the jobs processing.
    """
    attempt_ids = intend(job_ids, "", CODE)
    _doubt_sent(attempt_ids, sending_seconds)
    return attempt_ids


def _doubt_sent(attempt_ids: Sequence[int], sending_seconds: float) -> None:
    findings = [Finding(flight, _LOST, "lost") for flight in flights.opened(attempt_ids)]
    attempts.append_evidence([finding.evidence() for finding in findings])
    attempts.doubt([{**finding.doubt(), **_not_asked_before(finding.flight, sending_seconds)} for finding in findings])


def _not_asked_before(flight: Flight, sending_seconds: float) -> Row:
    """While it may still be sent, an upstream that knows nothing of it proves nothing. Whatever it shows it to have taken
    (a callback) is asked for earlier, and then a denial is not believed.
    """
    may_be_denied = sending_seconds and flight.way in ("find", "poll")
    return {"pause_ms": round(sending_seconds * 1_000) + flight.ways.find_after_ms} if may_be_denied else {}
