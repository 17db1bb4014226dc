"""The Celery tasks: each performs one transition for a set of rows. Messages carry ids and nothing else."""

from uuid import UUID

from celery import shared_task

from credits import allowances, ledger
from jobs import balances, calls, fetcher, keeping, late, sweep, telling, transitions, wakes
from jobs.queries import claim
from pool import transitions as sessions
from statemachine.crashpoints import crashpoint

MOST_ROUNDS, WALLETS_OF_A_ROUND = 50, 200  # of expiring credits; what is left comes a minute later


@shared_task(name="jobs.assign")
def assign(pool_id: int) -> None:
    wakes.awake("assign", (pool_id,))
    if transitions.assign(pool_id) == transitions.BATCH:
        wakes.wake("assign", (pool_id,), coalesce=True)
    elif due := claim.look_again_at(pool_id):
        wakes.wake("assign", (pool_id,), due=due, coalesce=True)


@shared_task(name="jobs.promote")
def promote(pool_id: int, tenant_ids: list[int]) -> None:
    transitions.promote(pool_id, tenant_ids)


@shared_task(name="jobs.dispatch")
def dispatch(job_ids: list[str]) -> None:
    calls.dispatch(_uuids(job_ids))


@shared_task(name="jobs.verify")
def verify(job_ids: list[str]) -> None:
    calls.verify(_uuids(job_ids))


@shared_task(name="jobs.cancel_upstream")
def cancel_upstream(job_ids: list[str]) -> None:
    calls.cancel_upstream(_uuids(job_ids))


@shared_task(name="jobs.fetch")
def fetch(job_ids: list[str]) -> None:
    fetcher.fetch(_uuids(job_ids))


@shared_task(name="jobs.finish")
def finish(job_ids: list[str]) -> None:
    transitions.finish(_uuids(job_ids))


@shared_task(name="jobs.release")
def release(resource_ids: list[int]) -> None:
    sessions.release(resource_ids)


@shared_task(name="jobs.come_due")
def come_due(job_ids: list[str]) -> None:
    transitions.come_due(_uuids(job_ids))


@shared_task(name="jobs.book_late")
def book_late(job_ids: list[str]) -> None:
    late.book(_uuids(job_ids))


@shared_task(name="jobs.sweep")
def run_sweep() -> None:
    sweep.sweep()


@shared_task(name="jobs.keep_credits")
def keep_credits() -> None:
    """What has expired is taken, what comes again is granted, what expires soon is told.

    Not needed for right: a hold expires what it touches.
    """
    for _ in range(MOST_ROUNDS):
        if not ledger.expire_due(WALLETS_OF_A_ROUND):
            break
    crashpoint("credits.expired")
    allowances.grant_allowances()
    crashpoint("credits.granted")
    telling.credits_expire_soon()


@shared_task(name="jobs.ask_balances")
def ask_balances() -> None:
    balances.ask_due()


@shared_task(name="jobs.clean_files")
def clean_files() -> None:
    keeping.clean_files()


def _uuids(job_ids: list[str]) -> list[UUID]:
    return [UUID(job_id) for job_id in job_ids]
