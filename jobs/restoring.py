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
from jobs.queries import attempts, flights
from jobs.queries import restoring as queries
from jobs.states import CALLING, INTENDED, JOB
from pool.models import Restoration
from pool.states import RESOURCE
from statemachine.actors import current_actor
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row, tell
from upstream.calls import Outcome

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
    """What `restored` did: pools with the time until which each is closed, attempts doubted, jobs suspected."""

    pools: Sequence[Row]
    attempts: int
    suspected: int


def restored(
    *, note: str, went_back_to: datetime | None = None, quiet_since: datetime | None = None, nothing_lost: bool = False
) -> Closed:
    """Nothing that was known before this database went back is trusted any more; one transaction.

    Fences, ids and job versions jump, so that nobody of before can write and no number means two things. Open attempts are
    doubted, those that were not sent yet too. Unless `nothing_lost`, pools are closed and jobs suspected. `quiet_since`:
    nothing was sent to an upstream after that; None: until now. Locks the tables of jobs, attempts, sessions and pools
    against other writers; a second caller waits, and closes the pools anew.
    """
    with transaction.atomic():
        tell(CODE)
        queries.be_alone()
        now = queries.now()
        quiet = min(quiet_since or now, now)
        found = queries.jump(quiet)
        crashpoint("restored.jumped")
        suspected = 0 if nothing_lost else queries.suspect()
        crashpoint("restored.suspected")
        _doubt_sent(flights.opened([row["id"] for row in found if row["phase"] == CALLING]))
        take_for_sent([row["job_id"] for row in found if row["phase"] == INTENDED])
        pools = [] if nothing_lost else queries.close_pools(quiet, note)
        crashpoint("restored.closed")
        Restoration.objects.create(at=now, went_back_to=went_back_to, note=note, actor=current_actor())
    logger.warning(
        "restored: %d pools closed, %d attempts doubted, %d jobs suspected", len(pools), len(found), suspected
    )
    return Closed(pools, len(found), suspected)


def take_for_sent(job_ids: Sequence[UUID]) -> list[int]:
    """ASSIGNED → PROCESSING without a call, since commits that were lost may have made it; ids of the attempts.

    Within the caller's transaction; locks jobs, attempts, sessions. A second caller finds the jobs processing.
    """
    moved = JOB.take(
        "dispatch",
        [{"id": job_id} for job_id in job_ids],
        columns={"started_at": "COALESCE(t.started_at, clock_timestamp())"},
        cause=CODE,
    )
    begun = attempts.begin([job.id for job in moved], "", settings.LEASE_SECONDS)
    RESOURCE.take("use", [{"id": a["resource_id"], "fence": a["fence"]} for a in begun], match=["fence"], cause=CODE)
    _doubt_sent(flights.opened([attempt["id"] for attempt in begun]))
    return [attempt["id"] for attempt in begun]


def _doubt_sent(open_flights: Sequence[Flight]) -> None:
    findings = [Finding(flight, _LOST, "lost") for flight in open_flights]
    attempts.append_evidence([finding.evidence() for finding in findings])
    attempts.doubt([finding.doubt() for finding in findings])
