"""`manage.py price_drift`: what was held against what was charged, and expected against charged costs, by job type."""

import json
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from credits.pricing import decimal_text, short_text
from jobs.queries import price_drift
from statemachine.sql import Row

LONGEST_DAYS = 366
MICRO_COLUMNS = ("held", "charged", "absorbed", "owed", "refunded", "expected")
EXPLAINED = (
    "A ratio is charged / held. Far below 1 the price holds too much: tenants are refused what they could pay. At 1 with"
    " overruns it holds too little, and what is above is absorbed or owed."
)
EXPLAINED_OF_ACCOUNTS = (
    "A ratio is charged / expected. Far below 1 `cost` sets too much aside: accounts look empty early. Far above 1 it sets"
    " too little aside: accounts run dry under way."
)


class Command(BaseCommand):
    help = "Compares prices with charges, and expected with charged costs of upstream accounts, by job type."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--days", type=int, default=7, metavar="N", help="jobs submitted in so many days; 7 if absent"
        )
        parser.add_argument("--json", action="store_true", help="print {days, jobs, tenants: […], accounts: […]}")

    def handle(self, **options: Any) -> None:
        days = options["days"]
        if not 1 <= days <= LONGEST_DAYS:
            raise CommandError(f"--days: is from 1 to {LONGEST_DAYS}, not {days}")
        drift = price_drift.report(timezone.now() - timedelta(days=days))
        if options["json"]:
            tables = {
                "tenants": [_document(row) for row in drift.of_tenants],
                "accounts": [*map(_document, drift.of_accounts)],
            }
            self.stdout.write(json.dumps({"days": days, "jobs": drift.jobs, **tables}))
            return
        more = (
            f" (the newest {drift.jobs}, there may be more)"
            if drift.jobs == price_drift.MOST_JOBS
            else f" ({drift.jobs})"
        )
        self.stdout.write(f"Of the jobs submitted in {days} days{more}.\n\nCompleted jobs. {EXPLAINED}\n")
        self._table(_lines_of_tenants(drift.of_tenants))
        self.stdout.write(f"\nAttempts on upstream accounts, failed ones apart. {EXPLAINED_OF_ACCOUNTS}\n")
        self._table(_lines_of_accounts(drift.of_accounts))

    def _table(self, lines: Sequence[Sequence[str]]) -> None:
        if len(lines) == 1:
            self.stdout.write("  none")
            return
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        for first, *cells in lines:
            padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            self.stdout.write(f"  {first.ljust(widths[0])}  {'  '.join(padded)}")


def _lines_of_tenants(rows: Iterable[Row]) -> list[list[str]]:
    head = ["type", "jobs", "held", "charged", "ratio", "mean", "absorbed", "owed", "flagged", "refunded"]
    return [head] + [
        [
            row["type"],
            str(row["completed"]),
            short_text(row["held"]),
            short_text(row["charged"]),
            _ratio(row["charged"], row["held"]),
            _number(row["mean_ratio"]),
            _of(row["absorbed_jobs"], row["absorbed"]),
            _of(row["owed_jobs"], row["owed"]),
            str(row["flagged"]),
            _of(row["refunds"], row["refunded"]),
        ]
        for row in rows
    ]


def _lines_of_accounts(rows: Iterable[Row]) -> list[list[str]]:
    return [["type", "outcome", "attempts", "expected", "charged", "ratio", "mean"]] + [
        [
            row["type"],
            "succeeded" if row["succeeded"] else "failed",
            str(row["attempts"]),
            short_text(row["expected"]),
            short_text(row["charged"]),
            _ratio(row["charged"], row["expected"]),
            _number(row["mean_ratio"]),
        ]
        for row in rows
    ]


def _document(row: Row) -> dict[str, Any]:
    """Amounts as decimal texts, as the API has them."""
    found = {name: decimal_text(value) if name in MICRO_COLUMNS else value for name, value in row.items()}
    mean = row["mean_ratio"]
    return {**found, "mean_ratio": None if mean is None else round(mean, 6)}


def _ratio(part: int, whole: int) -> str:
    return _number(part / whole if whole else None)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _of(number: int, amount: int) -> str:
    """`3: 4.5`: how many, and how much in all."""
    return f"{number}: {short_text(amount)}" if number else "0"
