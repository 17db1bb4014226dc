"""The end of a pool's quarantine after a restore: by its time and when nothing is undecided, or by an operator's word."""

import logging

from django.db import transaction

from jobs import closing
from jobs.queries import restoring as queries
from jobs.restoring import CODE
from jobs.suspecting import untellable
from jobs.suspicion import Suspicion
from pool.models import Pool
from statemachine.actors import current_actor
from statemachine.crashpoints import crashpoint

MESSAGE = "commits were lost by a restore: it may have been sent before, and nobody can tell"
PATIENCE_SECONDS = 3_600.0  # beyond the quarantine: so long a pool stays closed for what cannot be asked

logger = logging.getLogger(__name__)


def reopen(pool_id: int, *, force: bool = False) -> bool:
    """PENDING → FAILED for jobs of which nobody can tell whether they ran, when the quarantine is over; then the pool opens.

    `force`: what could still be asked is not waited for. Locks jobs, then balances, batch by batch, then sessions
    and the pool; a second caller finds the jobs ended, or the pool open.
    """
    impatient = force or queries.patience_is_over(pool_id, PATIENCE_SECONDS)
    while job_ids := untellable(pool_id, impatient):
        with transaction.atomic():
            closing.give_up("expire", job_ids, code="outcome_unknown", message=MESSAGE, cause=CODE)
            crashpoint("reopen.given_up")
            queries.decide(Suspicion.Decided.NOBODY_KNOWS, job_ids)
    crashpoint("reopen.decided")
    with transaction.atomic():
        opened = queries.open_pool(pool_id)
    for row in opened:
        logger.warning("pool %s is open again: what the lost commits began is found out, or over", row["name"])
    return bool(opened)


def open_by_operator(pool: Pool, reason: str, *, repeat: bool) -> bool:
    """An operator knows that nothing runs there. `repeat`: and that suspected jobs did not run; else they are found out no
    further, and fail where nobody can tell. False when the pool is open already. Locks as `reopen`.
    """
    if not queries.end_quarantine_now(pool.pk, reason):
        return False
    logger.warning("pool %s is opened by %s: %s", pool.name, current_actor(), reason)
    while repeat and (rows := queries.undecided(pool.pk)):
        queries.decide(Suspicion.Decided.OPERATOR, [row["job_id"] for row in rows])
    return reopen(pool.pk, force=True)
