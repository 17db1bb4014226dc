"""Writing a plan, in the caller's transaction. Occupancy (state, fence, job of a session) is never touched."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from broker_project.config import after_restore
from broker_project.config.plan import Change, Plan
from broker_project.config.plan_money import opening_key, opening_key_of_account
from credits import ledger, upstream_accounts
from jobs import reclosing
from jobs.models import JobType
from pool import health, transitions
from pool.models import Pool, Resource, UpstreamAccount
from statemachine.actors import current_actor
from statemachine.crashpoints import crashpoint
from statemachine.sql import fetch
from tenants.models import Tenant


def write(plan: Plan) -> None:
    """Locks sessions by id, then pools, then suspicions of a restore, then balances: the order that every verb keeps."""
    fetch("SELECT set_config('berth.cause', 'apply', true), set_config('berth.actor', %s, true)", [current_actor()])
    _create_pools(plan.of("pool", "create"))
    crashpoint("apply.pools_made")
    _write_accounts(plan)
    for change in plan.of("pool", "change", "drain"):
        # Only what changed: assign moves the pool's virtual time meanwhile.
        Pool.objects.filter(pk=change.stored.pk).update(**change.columns)
    crashpoint("apply.accounts_written")
    _track_accounts(plan)
    _write_job_types(plan)
    crashpoint("apply.types_written")
    _write_tenants(plan)
    crashpoint("apply.tenants_written")
    _top_up_accounts(plan.top_ups)


def _create_pools(created: Sequence[Change]) -> None:
    Pool.objects.bulk_create([Pool(name=change.name, **change.columns) for change in created])


def _write_accounts(plan: Plan) -> None:
    pools = Pool.objects.in_bulk(field_name="name")
    changed = sorted(plan.of("account", "change", "drain"), key=lambda change: int(change.stored.pk))
    offered = [change for change in changed if {"sessions", "credential"} & set(change.columns)]
    until = {pools[name].pk: at for name, at in after_restore.closings(plan).items()}
    doubts = after_restore.doubts(plan)
    concerned = doubts.pools_concerned()
    locked = _lock_sessions(offered, {*until, *concerned})
    reclosing.close(until, doubts, concerned)
    for change in changed:
        account: UpstreamAccount = change.stored
        sessions_before = account.sessions
        _set(account, change.columns)
        if "credential" in change.columns:
            health.credential_changed([account.pk])
        _offer(account, sessions_before)
    transitions.elect(*locked)  # a session that is not offered any more may have been a probe
    created = []
    for change in plan.of("account", "create"):
        pool_name, name = change.name
        account = UpstreamAccount(pool=pools[pool_name], name=name)
        _set(account, change.columns, save=False)
        created.append(account)
    for account in UpstreamAccount.objects.bulk_create(created):
        _offer(account, 0)


def _set(account: UpstreamAccount, columns: dict[str, Any], save: bool = True) -> None:
    for name, value in columns.items():
        setattr(account, name, value)
    if save:
        account.save(update_fields=["sealed_credential" if name == "credential" else name for name in columns])


def _lock_sessions(changed: Sequence[Change], closed: Collection[int]) -> tuple[Sequence[int], list[int]]:
    """Of changed accounts, and of all in pools to be closed. In id order, so that an apply and a set of ending jobs cannot wait
    for each other; health before them, as there.
    """
    pool_ids = sorted({change.stored.pool_id for change in changed} | {*closed})
    closing = UpstreamAccount.objects.filter(pool__in=closed).values_list("pk", flat=True)
    return transitions.lock_with_breakers(pool_ids, [*(change.stored.pk for change in changed), *closing])


def _offer(account: UpstreamAccount, before: int) -> None:
    """Sessions 1..n of the account are offered. Those above are drained; one drained by hand stays so."""
    sessions = Resource.objects.filter(account=account)
    sessions.filter(number__gt=account.sessions, accepting=True).update(accepting=False)
    if account.sessions > before:
        standing = list(sessions.order_by("number").values("number", "accepting", "disabled", "refused", "note"))
        sessions.filter(number__gt=before, number__lte=account.sessions, note="").update(accepting=True)
        made = Resource.objects.bulk_create(
            Resource(pool_id=account.pool_id, account=account, number=number)
            for number in range(1, account.sessions + 1)
            if number not in {session["number"] for session in standing}
        )
        _stand_like_the_others([session.pk for session in made], standing)


def _stand_like_the_others(made: Sequence[int], standing: Sequence[Mapping[str, Any]]) -> None:
    """An account that an operator took away or drained as a whole gets no session that takes jobs."""
    if standing and all(session["disabled"] for session in standing):
        transitions.disable(made, standing[0]["note"])
        if any(session["refused"] for session in standing):  # then a new credential puts them back like the others
            Resource.objects.filter(pk__in=made).update(refused=True)
    elif standing and all(session["note"] and not session["accepting"] for session in standing):
        transitions.drain(made, standing[0]["note"])


def _write_job_types(plan: Plan) -> None:
    pools = Pool.objects.in_bulk(field_name="name")

    def with_pool(columns: dict[str, Any]) -> dict[str, Any]:
        return {name: pools[value] if name == "pool" else value for name, value in columns.items()}

    for change in plan.of("job type", "change"):
        JobType.objects.filter(pk=change.stored.pk).update(version=F("version") + 1, **with_pool(change.columns))
    for change in plan.of("job type", "drain"):
        JobType.objects.filter(pk=change.stored.pk).update(**change.columns)
    created = plan.of("job type", "create")
    JobType.objects.bulk_create([JobType(name=change.name, **with_pool(change.columns)) for change in created])


def _track_accounts(plan: Plan) -> None:
    """Pools before the balances of their accounts, as a claim takes them. A pool that was tracked once is asked ever after:
    what attempts have set aside is still to be closed.
    """
    for pool_name, name in (*plan.tracked, *plan.untracked):
        since = Now() if (pool_name, name) in plan.tracked else None
        UpstreamAccount.objects.filter(pool__name=pool_name, name=name).update(tracked_since=since)
    pools = {pool for pool, _ in plan.tracked}
    Pool.objects.filter(name__in=pools, tracks_credits=False).update(tracks_credits=True)


def _top_up_accounts(top_ups: Mapping[tuple[str, str], int]) -> None:
    """After the tenants: their balances come first."""
    for (pool_name, name), amount in sorted(top_ups.items()):
        account = UpstreamAccount.objects.get(pool__name=pool_name, name=name)
        upstream_accounts.track(account.pool_id, account.pk)
        if amount:
            upstream_accounts.top_up(account.pool_id, account.pk, amount, opening_key_of_account(pool_name, name))


def _write_tenants(plan: Plan) -> None:
    for change in plan.of("tenant", "change", "drain"):
        Tenant.objects.filter(pk=change.stored.pk).update(**change.columns)
    Tenant.objects.bulk_create([Tenant(name=change.name, **change.columns) for change in plan.of("tenant", "create")])
    names = {*plan.wallets, *plan.grants}
    ids = dict(Tenant.objects.filter(name__in=names).values_list("name", "pk"))
    for name in plan.wallets:
        ledger.open_wallet(ids[name])
    # All of them first and in their order, whenever each was opened.
    ledger.lock_wallets(ids[name] for name in plan.grants)
    for name, amount in sorted(plan.grants.items(), key=lambda grant: ids[grant[0]]):
        ledger.grant(ids[name], amount, opening_key(name))
    if plan.ceiling is not None:
        ledger.set_ceiling(plan.ceiling["day_budget"], plan.ceiling["month_budget"])
