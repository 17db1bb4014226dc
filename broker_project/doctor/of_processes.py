"""The processes of Berth, as their connections to the database show them, and whether anyone sweeps."""

from django.conf import settings

from broker_project.doctor.findings import Finding, error, ok, some, warning
from broker_project.supervisor.readiness import answers_ok
from broker_project.supervisor.roles import WORKERS
from jobs.queries import health, server
from upstream.quantities import counted

LASTING = ("web", "beat", *(f"worker:{queue}" for queue, _ in WORKERS.values()))  # connected as long as they live
EXPECTED = (*LASTING, "live")  # which is connected while somebody waits
OVERDUE_SECONDS = 15.0  # a sweep does everything within a second or two


def is_role(name: str) -> bool:
    """Whether a connection's role is of a process that stays, and not of a command somebody typed."""
    return name in EXPECTED or name.startswith("worker:")


def processes() -> Finding:
    seen = {row["role"]: row["processes"] for row in server.processes() if is_role(row["role"])}
    said = ", ".join(f"{number} {role}" for role, number in seen.items()) or "none"
    if not seen:
        return error("no process of Berth is connected", "start them: `manage.py up`, or the lines of the Procfile")
    workers = any(role.startswith("worker:") for role in seen)
    missing = [role for role in LASTING if role not in seen]
    if not workers or "web" in missing:
        return error(f"{said}; missing: {some(missing)}", "start what is missing (see Procfile)")
    if missing:
        return warning(f"{said}; not seen: {some(missing)}", "start them, unless others do their work")
    return ok(said)


def web() -> Finding:
    return _answers("WEB_URL", settings.WEB_URL, "it may not be reached from here; else look into web's log")


def live() -> Finding:
    return _answers("LIVE_URL", settings.LIVE_URL, "start it: until then `?wait=` is answered without waiting")


def sweep() -> Finding:
    late = health.overdue(OVERDUE_SECONDS)
    if late:
        what = ", ".join(f"{row['what']}: {row['number']}" for row in late)
        return error(
            f"overdue by more than {OVERDUE_SECONDS:g} s ({what})",
            "a living web, beat or worker process sweeps each second: look for `sweep failed` in their logs",
        )
    sweepers = [row for row in server.processes() if is_role(row["role"]) and row["role"] != "live"]
    quiet = min((row["quiet_seconds"] for row in sweepers), default=None)
    if quiet is None or quiet > max(5.0, 3 * settings.SWEEP_SECONDS):
        since = "no process is there" if quiet is None else f"none did anything for {quiet:.0f} s"
        return error(f"nobody sweeps: {since}", "start a web, beat or worker process")
    number = sum(row["processes"] for row in sweepers)
    return ok(f"nothing is overdue; {counted(number, 'process', 'processes')} may sweep")


def _answers(name: str, url: str, advice: str) -> Finding:
    if not url:
        return ok(f"not asked: {name} is not set")
    return (
        ok(f"{url} answers") if answers_ok(f"{url}/healthz") else warning(f"{url}/healthz does not answer 200", advice)
    )
