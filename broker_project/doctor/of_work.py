"""The work itself: pools that serve nobody, jobs no account pays for, missing adapters, dead letters, unknown outcomes."""

from broker_project.doctor.findings import Finding, counted, error, ok, some, warning
from credits.pricing import short_text
from jobs import affording, balances
from jobs.models import JobType
from jobs.queries import affording as purses
from jobs.queries import health, health_of_accounts, occupancy
from jobs.queries.balances import standing
from statemachine.sql import Row
from upstream.adapters import adapter
from upstream.declared import merged

UNKNOWN_SECONDS = 60.0  # beyond max_runtime


def pools() -> Finding:
    """A pool with job types but without a session that may be given away accepts jobs and does none."""
    rows = health.pools()
    shut = [row["name"] for row in rows if row["has_types"] and not row["open_sessions"]]
    closed = [row["name"] for row in rows if row["has_types"] and row["open_sessions"] and not row["accepting"]]
    if shut:
        return error(
            f"no session to give in {some(shut)}",
            "enable sessions in the admin, or add accounts with `manage.py apply`",
        )
    if closed:
        return warning(f"closed: {some(closed)}", "open the pool, or nothing of it is assigned")
    idle = [row["name"] for row in rows if not row["has_types"]]
    if idle:
        return warning(f"no job type that takes jobs uses {some(idle)}", "add one, or prune the pool")
    return ok(
        f"{counted(len(rows), 'pool')} with {counted(sum(row['open_sessions'] for row in rows), 'session')} to give"
    )


def waiting() -> Finding:
    """Jobs that wait in pools where nothing can be given to them."""
    dead_ends = {row["id"] for row in health.pools() if not row["open_sessions"] or not row["accepting"]}
    stuck = [row for row in occupancy.filling() if row["id"] in dead_ends and row["depth"]]
    if stuck:
        named = [f"{row['name']} ({row['depth']:,})" for row in stuck]
        return error(
            f"{counted(sum(row['depth'] for row in stuck), 'job')} wait where nothing can serve them: {some(named)}",
            "open the pool or enable its sessions; jobs nobody will serve can be cancelled",
        )
    return ok("every job that waits has a session to wait for")


def upstream_credits() -> Finding:
    """Jobs that no upstream account can pay for, and readings that were too far off to be booked."""
    unpaid = [said for row in occupancy.filling() if row["unaffordable"] and (said := _unpaid(row))]
    doubted = [row["name"] for row in standing() if balances.is_alarming(row)]
    if unpaid:
        return warning(
            "; ".join([*unpaid, *([_doubted(doubted)] if doubted else [])]),
            "book a top-up or take a reading; `manage.py reconcile_account` says what each account has",
        )
    if doubted:
        return warning(_doubted(doubted), "`manage.py reconcile_account` says how far off it was, and what to do")
    return ok("no job waits for credits, and no reading is in doubt")


def accounts() -> Finding:
    """Accounts that the upstream refuses or a breaker holds back, and pools that rest as one."""
    rows = health_of_accounts.in_trouble()
    refused = [f"{row['pool']}/{row['account']}: {row['note']}" for row in rows if row["refused"]]
    resting = [f"pool {row['pool']} ({row['why']})" for row in health_of_accounts.pools_at_rest() if row["quarantined"]]
    resting += [
        f"{row['pool']}/{row['account']} ({row['why']})" for row in rows if row["quarantined"] and not row["refused"]
    ]
    if refused:
        more = f"; at rest: {some(resting)}" if resting else ""
        return warning(
            f"refused by the upstream: {some(refused)}{more}",
            "apply a file with a working credential, or enable the account in the admin once it is right again",
        )
    if resting:
        return warning(f"at rest after failures: {some(resting)}", "they come back by themselves, a probe first")
    return ok("no account is refused or at rest after failures")


def adapters() -> Finding:
    """Which adapter a job type's calls need: its own, or its pool's."""
    missing = []
    types = JobType.objects.filter(accepting=True).select_related("pool").order_by("name")
    users: dict[str, list[str]] = {}
    for job_type in types:
        name = merged(job_type.pool.upstream, job_type.upstream).get("adapter") or "http"
        users.setdefault(str(name), []).append(job_type.name)
    for name, names in users.items():
        try:
            adapter(name)
        except Exception as failure:  # noqa: BLE001  whatever the adapter's own code raises when it is made
            missing.append(f"{name} ({type(failure).__name__}: {failure}; for {some(names)})")
    if missing:
        return error("; ".join(missing), "install the package that brings the adapter, where the workers run")
    return ok(f"{some(sorted(users)) or 'none needed'}: loaded")


def dead_letters() -> Finding:
    rows = [row for row in occupancy.by_pool() if row["dead_letters"]]
    if rows:
        named = [f"{row['name']} ({row['dead_letters']:,})" for row in rows]
        return warning(
            f"{counted(sum(row['dead_letters'] for row in rows), 'job')} failed for good: {some(named)}",
            "replay or dismiss them in the admin",
        )
    return ok("none")


def attention() -> Finding:
    """Holds whose review found that the facts will decide nothing any more."""
    rows = [row for row in occupancy.by_pool() if row["needs_attention"]]
    if rows:
        named = [f"{row['name']} ({row['needs_attention']:,})" for row in rows]
        return warning(
            f"an operator is needed for {counted(sum(row['needs_attention'] for row in rows), 'job')}: {some(named)}",
            "the admin lists them under `needs attention`; look at the upstream, then decide the outcome there",
        )
    return ok("no job needs an operator")


def unknown() -> Finding:
    late = health.unknown_for_too_long(UNKNOWN_SECONDS)
    if late["number"]:
        return error(
            f"{counted(late['number'], 'unknown outcome')} older than max_runtime, the oldest by {late['seconds']:,.0f} s",
            "nobody looks at them: is a worker of the queue `upstream` there, and does it sweep?",
        )
    return ok("no outcome is unknown for longer than max_runtime")


def _unpaid(pool: Row) -> str:
    """Empty where the richest account can pay for the dearest: the sweep takes those back."""
    dearest, most = purses.dearest(pool["id"]), purses.richest(pool["id"])
    if most is None or dearest <= most:
        return ""
    number, one = pool["unaffordable"], pool["unaffordable"] == 1
    return (
        f"{counted(number, 'job')} of {pool['name']} {'waits' if one else 'wait'} for credits that no account has"
        f" (the dearest wants {short_text(dearest)}, {affording.in_words(most)})"
    )


def _doubted(names: list[str]) -> str:
    return f"the newest reading of {counted(len(names), 'account')} was not booked: {some(names)}"
