"""The work itself: pools that serve nobody, jobs no account pays for, missing adapters, dead letters, unknown outcomes."""

from broker_project.doctor.findings import Finding, all_of, error, ok, some, warning
from broker_project.trial.wording import OF_THE_MAPPING
from credits.pricing import short_text
from jobs import affording, balances
from jobs.models import JobType
from jobs.queries import affording as purses
from jobs.queries import fetches, health, health_of_accounts, occupancy, restoring
from jobs.queries.balances import standing
from statemachine.sql import Row
from upstream.adapters import adapter
from upstream.declared import merged
from upstream.quantities import counted

UNKNOWN_SECONDS = 60.0  # beyond max_runtime
ASKED_IN_VAIN = 3  # askings in a row, from which on it is told


def pools() -> Finding:
    """A pool with job types but without a session that may be given away accepts jobs and does none."""
    rows = health.pools()
    shut = [row for row in rows if row["has_types"] and not row["open_sessions"]]
    closed = [row["name"] for row in rows if row["has_types"] and row["open_sessions"] and not row["accepting"]]
    if shut:
        return error(
            f"no session to give in {some([row['name'] for row in shut])}",
            all_of([advice for row in shut for advice in _how_to_open(row)]),
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
    dead_ends = {row["id"]: row for row in health.pools() if not row["open_sessions"] or not row["accepting"]}
    stuck = [row for row in occupancy.filling() if row["id"] in dead_ends and row["depth"]]
    if stuck:
        named = [f"{row['name']} ({row['depth']:,})" for row in stuck]
        number = sum(row["depth"] for row in stuck)
        said = "waits where nothing can serve it" if number == 1 else "wait where nothing can serve them"
        open_them = [advice for row in stuck for advice in _how_to_open(dead_ends[row["id"]])]
        return error(
            f"{counted(number, 'job')} {said}: {some(named)}",
            all_of([*open_them, "jobs nobody will serve can be cancelled"]),
        )
    return ok("every job that waits has a session to wait for")


def closed_pools() -> Finding:
    """Pools that are closed since a restore."""
    rows = restoring.quarantined()
    if not rows:
        return ok("no pool is closed since a restore")
    named = [
        f"{row['name']} until {row['quarantined_until']:%Y-%m-%d %H:%M} UTC"
        + (f" ({counted(row['undecided'], 'job')} to be found out)" if row["undecided"] else "")
        for row in rows
    ]
    return warning(
        f"closed since a restore: {some(named)}",
        "they open by themselves; `manage.py restored --open POOL --reason '…'` for who knows that nothing runs there",
    )


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
            "run them again or dismiss them in the admin; many at once: `manage.py redrive --all --why '…'` (--dry-run first)",
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


def results() -> Finding:
    """Results behind links that were tried in vain and wait, which after a day are lost."""
    rows = fetches.waiting()
    if rows:
        named = [f"{row['type']} of {row['pool']} ({row['number']:,}): {row['why']}" for row in rows]
        return warning(
            f"{counted(sum(row['number'] for row in rows), 'result')} could not be fetched yet: {some(named)}",
            "mend result_files of the type and apply; they are tried again by themselves, in the admin at once",
        )
    return ok("no result waits to be fetched again")


def unknown() -> Finding:
    late = health.unknown_for_too_long(UNKNOWN_SECONDS)
    if late["number"]:
        return error(
            f"{counted(late['number'], 'unknown outcome')} older than max_runtime, the oldest by {late['seconds']:,.0f} s",
            "nobody looks at them: is a worker of the queue `upstream` there, and does it sweep?",
        )
    return ok("no outcome is unknown for longer than max_runtime")


def found_out() -> Finding:
    """Outcomes that are being found out, by what comes of asking: a revoked credential shows here while jobs still run."""
    rows = health.found_out()
    wrong = [row for row in rows if row["refused"] or row["in_vain"] >= ASKED_IN_VAIN]
    if wrong:
        named = [f"{row['pool']}/{row['account']} {row['code'] or 'unknown'} ({row['number']:,})" for row in wrong]
        number = sum(row["number"] for row in wrong)
        return warning(
            f"{counted(number, 'outcome')} asked for in vain, by the last code: {some(named)}",
            all_of([_how_to_learn(row) for row in sorted(wrong, key=lambda row: not row["refused"])]),
        )
    number = sum(row["number"] for row in rows)
    return ok(f"{counted(number, 'outcome')} being found out" if number else "no outcome is being found out")


def _how_to_learn(row: Row) -> str:
    if row["refused"]:
        return (
            "the upstream refuses the account that the work runs on: apply a file with a working credential, with which it"
            " is asked for again, before max_runtime ends the job as outcome_unknown"
        )
    if row["code"] in OF_THE_MAPPING:
        return f"mend what is declared: `manage.py check_upstream {row['pool']}` and `replay_answers` show what it concludes"
    return "they are asked for again until max_runtime; look at the upstream, and at *Attempts* in the admin"


def _how_to_open(pool: Row) -> list[str]:
    """What opens a pool that gives no session, by why it does not, the likeliest first."""
    advice = []
    if not pool["accepting"]:
        advice.append("open the pool in the admin, or apply a file that has it")
    if any(row["refused"] and row["pool_id"] == pool["id"] for row in health_of_accounts.in_trouble()):
        advice.append(
            "accounts were refused by the upstream (`accounts` says why): apply a file with a working credential, or enable"
            " them in the admin once they are right again"
        )
    elif pool["sessions"] and not pool["open_sessions"]:
        advice.append("enable sessions in the admin")
    if not pool["open_sessions"]:
        advice.append("add accounts with `manage.py apply`")
    return advice


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
