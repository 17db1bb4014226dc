"""`manage.py doctor`: looks at settings, servers, processes and work; exit 1 when something is wrong."""

import json
from argparse import ArgumentParser
from collections import Counter
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.doctor.examination import examine
from broker_project.doctor.findings import ERROR, OK, SKIPPED, WARNING, Result
from broker_project.doctor.table import CHECKS
from upstream.quantities import counted

MANY = {OK: OK, WARNING: "warnings", ERROR: "errors", SKIPPED: SKIPPED}  # how several of a level are called
WIDTH = max(len(check.name) for check in CHECKS)


class Command(BaseCommand):
    help = "Says of settings, database, Redis, processes and work what is well, what is not, and what to do."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print {errors, warnings, checks: [{name, level, …}]}")

    def handle(self, **options: Any) -> None:
        results = []
        for result in examine(CHECKS):
            results.append(result)
            if not options["json"]:
                self._show(result)
        levels = Counter(result.finding.level for result in results)
        if options["json"]:
            self.stdout.write(json.dumps({"errors": levels[ERROR], "warnings": levels[WARNING], **_listed(results)}))
        else:
            numbers = ", ".join(counted(levels[level], level, many) for level, many in MANY.items() if levels[level])
            self.stdout.write(f"{numbers}. Whether every promise is kept is another question: `manage.py audit`.")
        if levels[ERROR]:
            raise CommandError(f"{levels[ERROR]} of {len(results)} checks found an error")

    def _show(self, result: Result) -> None:
        finding = result.finding
        style = {OK: self.style.SUCCESS, WARNING: self.style.WARNING, ERROR: self.style.ERROR}.get(finding.level, str)
        self.stdout.write(f"{style(f'{finding.level:7}')}  {result.name:{WIDTH}}  {finding.found}")
        if finding.advice:
            self.stdout.write(f"{'':{WIDTH + 9}}  -> {finding.advice}")


def _listed(results: list[Result]) -> dict[str, Any]:
    return {"checks": [{"name": result.name, **asdict(result.finding), "ms": result.ms} for result in results]}
