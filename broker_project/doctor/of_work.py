"""The work itself: pools that serve nobody, adapters that are missing, dead letters, outcomes nobody found out."""

from broker_project.doctor.findings import Finding, counted, error, ok, some, warning
from jobs.models import JobType
from jobs.queries import health, occupancy
from upstream.adapters import adapter

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


def adapters() -> Finding:
    """Which adapter a job type's calls need: its own, or its pool's."""
    missing = []
    types = JobType.objects.filter(accepting=True).select_related("pool").order_by("name")
    users: dict[str, list[str]] = {}
    for job_type in types:
        name = {**job_type.pool.upstream, **job_type.upstream}.get("adapter") or "http"
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
