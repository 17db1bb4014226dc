"""`manage.py apply FILE`: makes the database what the configuration file says."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.config.apply import apply_file
from broker_project.config.findings import ConfigRefused


class Command(BaseCommand):
    help = "Checks FILE as a whole, prints what would change, and applies it in one transaction."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--dry-run", action="store_true", help="print the plan and stop there")
        parser.add_argument("--prune", action="store_true", help="drain what is stored and not in the file")

    def handle(self, **options: Any) -> None:
        try:
            apply_file(options["file"], options["dry_run"], options["prune"], out=self.stdout)
        except ConfigRefused as refused:
            count = len(refused.errors)
            mistakes = "\n".join(f"  {error}" for error in refused.errors)
            noun = "mistake" if count == 1 else "mistakes"
            raise CommandError(f"{options['file']} is not applied, {count} {noun}:\n{mistakes}") from None
