"""Applies a configuration file: all of it is checked, then planned and written in one transaction."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from django.conf import settings
from django.db import transaction

from broker_project import public_address
from broker_project.config import after_restore, checks
from broker_project.config.checks_calls import check_balances, check_compiled
from broker_project.config.file import read_file
from broker_project.config.findings import Findings, Place
from broker_project.config.plan import Plan, make_plan
from broker_project.config.plan_money import plan_money
from broker_project.config.plan_moves import plan_moves
from broker_project.config.rows import Wanted, rows
from broker_project.config.schema import FILE
from broker_project.config.writing import write
from jobs.models import JobType
from pool.models import Pool
from statemachine.crashpoints import crashpoint
from statemachine.sql import fetch
from upstream.declared import merged

LOCK: Final = 7_266_402  # any number that nothing else in this database uses


class Out(Protocol):
    def write(self, text: str, /) -> Any: ...


def apply_file(path: Path | str, dry_run: bool, prune: bool, out: Out) -> Plan:
    """Prints warnings and the plan, and does it unless `dry_run`. Raises ConfigRefused; then nothing is stored.

    A second apply at the same time waits for the first and then plans against what that one stored.
    """
    wanted, warnings = read_wanted(Path(path), prune)
    with transaction.atomic():
        fetch("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        plan = make_plan(wanted, prune)
        plan_money(plan, wanted, prune)
        plan_moves(plan)
        plan.notes += after_restore.notes(plan)
        if not dry_run and not plan.is_empty:
            write(plan)
            crashpoint("apply.written")
    # Printed after the commit: whoever reads slowly must not keep a transaction open.
    crashpoint("apply.committed")
    lines = [*(f"warning: {warning}" for warning in warnings), *plan.lines()]
    if not plan.is_empty:
        lines.append("dry run: nothing was stored" if dry_run else "applied")
    out.write("".join(f"{line}\n" for line in lines))
    return plan


def read_wanted(path: Path, prune: bool) -> tuple[Wanted, list[str]]:
    """The rows that the file asks for, and what to warn of. Raises ConfigRefused with all mistakes at once."""
    written = read_file(path)
    findings = Findings()
    parsed = FILE(written, Place(), findings)
    known = _known(prune)
    checks.check(parsed, known, findings)
    findings.stop_on_errors()
    wanted = rows(written, parsed)
    check_balances(wanted.pools, findings)
    pools = {**known.pools, **{name: row["upstream"] for name, row in wanted.pools.items()}}
    check_compiled(wanted.job_types, pools, findings)
    _check_public_url(wanted, pools, findings)
    findings.stop_on_errors()
    return wanted, findings.warnings


def _check_public_url(wanted: Wanted, pools: Mapping[str, Mapping[str, Any]], findings: Findings) -> None:
    """Warns of job types whose upstream would not reach us."""
    for name, row in wanted.job_types.items():
        needed = public_address.needs(merged(pools[row["pool"]], row["upstream"]), row["payload_schema"])
        own = [each["base_url"] for (pool, _), each in wanted.accounts.items() if pool == row["pool"]]
        base_urls = {url or pools[row["pool"]].get("base_url") or "" for url in own or [""]}
        if needed and (doubt := public_address.doubt(settings.PUBLIC_URL, base_urls)):
            place = Place().field("job_types").entry(name)
            findings.later(place, f"needs PUBLIC_URL, for {needed}, and that {doubt}: its upstream may not reach it")


def _known(prune: bool) -> checks.Known:
    """What is stored, unless that is about to be drained."""
    if prune:
        return checks.Known({}, set())
    return checks.Known(
        dict(Pool.objects.values_list("name", "upstream")), set(JobType.objects.values_list("name", flat=True))
    )
