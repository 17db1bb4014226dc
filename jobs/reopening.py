"""The end of a pool's quarantine after a restore: by its time and when nothing is undecided, or by an operator's word."""

import logging
import math
from dataclasses import dataclass

from django.db import transaction

from jobs import closing, suspecting
from jobs.models import Suspicion
from jobs.queries import endings, suspicions
from jobs.queries import restoring as queries
from jobs.restoring import CODE
from pool.models import Pool
from pool.queries import quarantine
from statemachine.actors import current_actor
from statemachine.crashpoints import crashpoint
from statemachine.patience import patient
from upstream.quantities import counted

MESSAGE = "commits were lost by a restore: it may have been sent before, and nobody can tell"
PATIENCE_SECONDS = 3_600.0  # beyond the quarantine: so long a pool stays closed for what was asked in vain

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """What becomes of the jobs of a pool that was opened early: so many may run, failed with outcome_unknown, or are under way
    and still being found out.
    """

    may_run: int
    failed: int
    under_way: int

    def __str__(self) -> str:
        return (
            f"{counted(self.may_run, 'waiting job')} may run, {self.failed} failed with outcome_unknown,"
            f" {counted(self.under_way, 'is', 'are')} still being found out"
        )


def reopen(pool_id: int, *, force: bool = False) -> bool:
    """PENDING → FAILED for jobs of which nobody can tell whether they ran, when the quarantine is over; then the pool opens.

    One batch of jobs, and the next sweep goes on; `force`: all of them, and what could still be asked is not waited for.
    Locks jobs, their suspicions, then balances, then in another transaction sessions and the pool; a second caller finds the
    jobs decided, or the pool open. False when it stays closed.
    """
    if not force and not quarantine.is_over(pool_id):  # another restore came since somebody looked
        return False
    over = force or quarantine.is_over(pool_id, PATIENCE_SECONDS)
    in_vain = (0 if force else suspecting.IN_VAIN) if over else math.inf
    left = _decide_some(pool_id, in_vain)
    while force and left:
        left = _decide_some(pool_id, in_vain)
    crashpoint("reopen.decided")
    with transaction.atomic():
        opened = queries.open_pool(pool_id)
    for row in [] if force else opened:
        logger.warning("pool %s is open again: what the lost commits began is found out, or over", row["name"])
    return bool(opened)


def open_by_operator(pool: Pool, reason: str, *, repeat: bool) -> Opened | None:
    """Opens a pool of which an operator knows that nothing of before runs there; None when it is open, or stays closed.

    `repeat`: and that suspected jobs did not run, or may run twice; else those that wait are asked for no further, and fail
    where nobody can tell. Locks the pool's row, then the suspicions by id, so that whoever sees the quarantine ended sees
    the jobs decided; then as `reopen`. A second caller waits at the pool.
    """
    with patient(), transaction.atomic():
        queries.take_time()
        if not quarantine.end_now(pool.pk, reason):
            return None
        before = queries.affected(pool.pk)
        crashpoint("reopen.ended")
        if repeat:
            suspicions.decide_all(Suspicion.Decided.OPERATOR, pool.pk)
    if not reopen(pool.pk, force=True):
        return None
    failed = queries.given_up(pool.pk, before["now"])
    opened = Opened(before["waiting"] - failed, failed, before["under_way"])
    logger.warning("pool %s is opened early by %s (%s): %s", pool.name, current_actor(), reason, opened)
    return opened


def _decide_some(pool_id: int, in_vain: float) -> int:
    """How many jobs were decided about, or tried; 0 when nothing is left that can be decided now."""
    decided = suspecting.decide_unasked(pool_id, in_vain)
    if untellable := suspecting.untellable(pool_id, in_vain):
        with transaction.atomic():
            endings.lock([row["job_id"] for row in untellable])
            # Since we asked, an operator may have said that they did not run, or one was cancelled.
            given_up = suspicions.still_waiting(untellable)
            job_ids = [row["job_id"] for row in given_up]
            closing.give_up("expire", job_ids, code="outcome_unknown", message=MESSAGE, cause=CODE)
            crashpoint("reopen.given_up")
            suspicions.decide(Suspicion.Decided.NOBODY_KNOWS, given_up)
    return decided + len(untellable)
