"""`manage.py audit`: asks the database whether every promise is kept; exit 1 when one is not."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.audit import MOST_ROWS, Result, audit, breaches


class Command(BaseCommand):
    help = "Runs every rule of docs/promises.md over the live database, in one read-only snapshot."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print {breaches, rules: {name: {rows, count, ms}}}")

    def handle(self, **options: Any) -> None:
        results = audit()
        total = breaches(results)
        if options["json"]:
            rules = {name: asdict(result) for name, result in results.items()}
            self.stdout.write(json.dumps({"breaches": total, "rules": rules}, default=str))
        else:
            for name, result in results.items():
                self._show(name, result)
        if total:
            raise CommandError(f"{total} breaches of {sum(result.count > 0 for result in results.values())} rules")
        if not options["json"]:
            self.stdout.write(f"{len(results)} rules hold")

    def _show(self, name: str, result: Result) -> None:
        self.stdout.write(f"{'✗' if result.count else '✓'} {name} ({result.ms:.0f} ms)")
        for row in result.rows:
            self.stdout.write(f"    {row['subject']}: {row['found']}, expected {row['expected']}")
        if result.count > MOST_ROWS:
            self.stdout.write(f"    … and {result.count - MOST_ROWS} more")
