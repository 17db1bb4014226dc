"""`manage.py audit`: asks the database whether every promise is kept; exit 1 when one is not."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.audit import MOST_ROWS, RULES, Result, Run, audit, audit_and_remember, breaches
from broker_project.touched import Part
from tenants.models import Tenant
from upstream.quantities import counted


class Command(BaseCommand):
    help = (
        "Runs every rule of docs/promises.md over the live database, in one read-only snapshot: over all of it, unless told "
        "otherwise. A clean run over all or since the checkpoint is the next checkpoint."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--json",
            action="store_true",
            help="print {asked, breaches, checkpoint_moved, rules: {name: {rows, count, ms}}, …}",
        )
        part = parser.add_mutually_exclusive_group()
        part.add_argument(
            "--since-checkpoint",
            action="store_true",
            help="ask only what was touched since the last clean run; all, when there was none with these rules",
        )
        part.add_argument(
            "--tenant",
            metavar="NAME",
            help="ask only what is this tenant's, where a rule can tell; moves no checkpoint",
        )

    def handle(self, **options: Any) -> None:
        asked, run = self._run(options["since_checkpoint"], options["tenant"])
        total = breaches(run.results)
        if options["json"]:
            self.stdout.write(json.dumps(_document(asked, run), default=str))
        else:
            self.stdout.write(f"Asked: {asked}")
            for name, result in run.results.items():
                self._show(name, result)
        if total:
            broken = sum(result.count > 0 for result in run.results.values())
            raise CommandError(f"{counted(total, 'breach', 'breaches')} of {counted(broken, 'rule')}")
        if not options["json"]:
            self.stdout.write(f"{counted(len(run.results), 'rule holds', 'rules hold')}")

    def _run(self, since_checkpoint: bool, tenant: str | None) -> tuple[str, Run]:
        if tenant is not None:
            if (found := Tenant.objects.filter(name=tenant).first()) is None:
                raise CommandError(f"no tenant is named {tenant!r}")
            return f"what is of tenant {tenant}", Run(audit(RULES, Part(tenant=found.pk)), None, False, 0, 0)
        run = audit_and_remember(since_checkpoint=since_checkpoint)
        if run.since is not None:
            return f"what was touched since {datetime.fromtimestamp(run.since.at, UTC):%Y-%m-%dT%H:%M:%SZ}", run
        return "all; there is no checkpoint of these rules" if since_checkpoint else "all", run

    def _show(self, name: str, result: Result) -> None:
        self.stdout.write(f"{'✗' if result.count else '✓'} {name} ({result.ms:.0f} ms)")
        for row in result.rows:
            self.stdout.write(f"    {row['subject']}: {row['found']}, expected {row['expected']}")
        if result.count > MOST_ROWS:
            self.stdout.write(f"    … and {result.count - MOST_ROWS} more")


def _document(asked: str, run: Run) -> dict[str, Any]:
    return {
        "asked": asked,
        "breaches": breaches(run.results),
        "checkpoint_moved": run.moved,
        "touched_ms": run.touched_ms,
        "figures_ms": run.figures_ms,
        "rules": {name: asdict(result) for name, result in run.results.items()},
    }
