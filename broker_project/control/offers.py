"""Which operations stand at which rows, and what is told of them: one table."""

from broker_project.control import (
    account_money,
    account_stories,
    allowances,
    customers,
    decisions,
    fetched,
    jobs,
    money,
    money_stories,
    redrives,
    sessions,
    stories,
)
from credits import owners
from credits.models import Account, Allowance, Balance, Hold, Lot, Reading, Transfer
from jobs.models import Attempt, Evidence, Job, JobMove, Redrive
from pool.models import Pool, Resource, ResourceMove, UpstreamAccount
from statemachine.operations import offer, show, tell
from tenants.models import ApiKey, Tenant


def make() -> None:
    """Called once, when all apps are there."""
    offer(Job, decisions.Decide(), fetched.FetchNow(), jobs.Replay(), jobs.Cancel(), jobs.Dismiss(), money.Refund())
    offer(Resource, *sessions.all_of(lambda session: [session]))
    offer(UpstreamAccount, *sessions.all_of(lambda account: account.resources.select_related("account").order_by("id")))
    offer(UpstreamAccount, account_money.TakeReading(), account_money.TopUp())
    offer(Pool, *sessions.all_of(lambda pool: pool.resources.select_related("account").order_by("id")))
    offer(Tenant, money.Grant(), money.CreditLine(), money.Payment(), allowances.AddAllowance(), customers.IssueKey())
    offer(Allowance, allowances.StopAllowance(), allowances.StartAllowance())
    offer(Redrive, redrives.StopRedrive())
    offer(ApiKey, customers.RevokeKey())

    tell(
        Job,
        (stories.outlook_of, Attempt),
        (stories.attempts_of, Attempt),
        (money_stories.money_of_job, Hold),
        (account_stories.accounts_of_job, Hold),
        (stories.moves_of_job, JobMove),
        (stories.deeds_on, Job),
    )
    tell(Redrive, (redrives.progress_of, Job), (stories.deeds_on, Redrive))
    tell(Attempt, (stories.evidence_of, Evidence))
    tell(
        Resource, (stories.attempts_on, Attempt), (stories.moves_of_session, ResourceMove), (stories.deeds_on, Resource)
    )
    show(UpstreamAccount, account_stories.LEFT)
    owners.know(Account.Kind.UPSTREAM, account_stories.OWNERS)
    tell(
        UpstreamAccount,
        (stories.sessions_of, Resource),
        (account_stories.health_of_account, Resource),
        (account_stories.credits_of_account, Reading),
        (stories.deeds_on, UpstreamAccount),
    )
    tell(Pool, (stories.accounts_of, UpstreamAccount), (stories.deeds_on, Pool))
    tell(
        Tenant,
        (stories.wallet_of, Balance),
        (money_stories.budgets_of, Balance),
        (money_stories.allowances_of, Allowance),
        (stories.keys_of, ApiKey),
        (stories.jobs_of, Job),
        (stories.deeds_on, Tenant),
    )
    tell(Allowance, (stories.deeds_on, Allowance))
    tell(Lot, (money_stories.entries_of_lot, Transfer))
    tell(Transfer, (money_stories.places_of_entry, Transfer), (stories.deeds_on, Transfer))
