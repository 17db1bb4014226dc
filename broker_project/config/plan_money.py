"""What applying would do to money: opening grants, what upstream accounts begin with, budgets of all tenants."""

from typing import Final

from broker_project.config.plan import Plan
from broker_project.config.rows import Row, Wanted
from broker_project.config.wording import credits_text
from credits.models import TENANT_LEDGER, Account, Ceiling, Transfer
from tenants.models import Tenant

NO_BUDGETS: Final = {"day_budget": None, "month_budget": None}


def plan_money(plan: Plan, wanted: Wanted, prune: bool) -> None:
    """Adds to the plan what is to be booked or set; the plan's changes are made already."""
    _plan_grants(plan, wanted)
    _plan_accounts(plan, wanted)
    _plan_ceiling(plan, wanted.ceiling, prune)


def _plan_grants(plan: Plan, wanted: Wanted) -> None:
    tenants = {tenant.name: tenant for tenant in Tenant.objects.all()}
    with_wallet = set(
        Account.objects.filter(ledger=TENANT_LEDGER, kind=Account.Kind.WALLET).values_list("owner_id", flat=True)
    )
    plan.wallets = [name for name in wanted.tenants if name not in tenants or tenants[name].pk not in with_wallet]
    keys = {f"grant:{opening_key(name)}": name for name in wanted.grants}
    granted = dict(Transfer.objects.filter(op_key__in=list(keys)).values_list("op_key", "amount"))
    for key, name in keys.items():
        if key not in granted:
            plan.grants[name] = wanted.grants[name]
        elif granted[key] != wanted.grants[name]:
            booked, asked = credits_text(granted[key]), credits_text(wanted.grants[name])
            _say(plan, "tenant", name, f"an opening grant, booked once as {booked}; {asked} is not granted again")
    for change in plan.of("tenant", "change"):
        if change.name not in wanted.grants:
            _say(plan, "tenant", change.name, "an opening grant is booked once and stays", only_beside=True)


def _plan_accounts(plan: Plan, wanted: Wanted) -> None:
    """An account is tracked while the file says its credits; a number that was booked is not booked again."""
    stored = {change.name: change.stored for change in plan.of("account", "create", "change", "keep")}
    keys = {f"topup:{opening_key_of_account(*name)}": name for name in wanted.top_ups}
    known = set(Account.objects.filter(kind=Account.Kind.UPSTREAM).values_list("owner_id", flat=True))
    opened = dict(Transfer.objects.filter(op_key__in=list(keys)).values_list("op_key", "amount"))
    for key, name in keys.items():
        account, amount = stored.get(name), wanted.top_ups[name]
        if account is None or account.tracked_since is None:
            plan.tracked.append(name)
        if account is None or account.pk not in known:
            plan.top_ups[name] = amount
        elif opened.get(key, 0) != amount:
            why = f"what it began with; {credits_text(amount)} is not booked again (reconcile_account takes a reading)"
            _say(plan, "account", name, why)
    plan.untracked += [
        name
        for name in wanted.accounts
        if name not in wanted.top_ups and stored.get(name) is not None and stored[name].tracked_since is not None
    ]


def _say(plan: Plan, kind: str, name: object, why: str, only_beside: bool = False) -> None:
    """Why a number of `credits` moves nothing: beside the line that shows it; else, where it stands as it was, below."""
    for change in plan.of(kind, "change"):
        shown = [place for place, line in enumerate(change.lines) if line.startswith("credits: ")]
        if change.name == name and shown:
            change.lines[shown[0]] += f" ({why})"
            return
    if not only_beside:
        plan.notes.append(f"{kind} {'/'.join(name) if isinstance(name, tuple) else name}: credits is {why}")


def opening_key_of_account(pool: str, account: str) -> str:
    """The ledger's key of what an upstream account began with."""
    return f"opening:{pool}/{account}"


def _plan_ceiling(plan: Plan, wanted: Row | None, prune: bool) -> None:
    """Left out of the file it stays, unless what left the file is to go."""
    stored = Ceiling.objects.values("day_budget", "month_budget").first() or NO_BUDGETS
    asked = wanted or (NO_BUDGETS if prune else stored)
    if asked != stored:
        plan.ceiling = dict(asked)


def opening_key(tenant: str) -> str:
    """The ledger's key of a tenant's opening grant."""
    return f"opening:{tenant}"
