"""Which operations stand at which rows, and what is told of them: one table."""

from broker_project.control import customers, jobs, sessions, stories
from jobs.models import Attempt, Job
from pool.models import Pool, Resource, UpstreamAccount
from statemachine.operations import offer, tell
from tenants.models import ApiKey, Tenant


def make() -> None:
    """Called once, when all apps are there."""
    offer(Job, jobs.Replay(), jobs.Cancel(), jobs.Dismiss())
    offer(Resource, *sessions.all_of(lambda session: [session]))
    offer(UpstreamAccount, *sessions.all_of(lambda account: account.resources.order_by("id")))
    offer(Pool, *sessions.all_of(lambda pool: pool.resources.order_by("id")))
    offer(Tenant, customers.Grant(), customers.IssueKey())
    offer(ApiKey, customers.RevokeKey())

    tell(Job, stories.attempts_of, stories.money_of_job, stories.moves_of_job)
    tell(Attempt, stories.evidence_of)
    tell(Resource, stories.last_job_of, stories.moves_of_session)
    tell(UpstreamAccount, stories.sessions_of)
    tell(Pool, stories.accounts_of)
    tell(Tenant, stories.wallet_of, stories.keys_of, stories.jobs_of)
