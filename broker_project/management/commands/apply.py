"""`manage.py apply FILE`: makes the database what the configuration file says."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.config.apply import apply_file
from broker_project.config.findings import ConfigRefused
from statemachine.actors import acting_as, at_the_shell
from upstream.quantities import counted


class Command(BaseCommand):
    help = "Checks FILE as a whole, prints what would change, and applies it in one transaction."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--dry-run", action="store_true", help="print the plan and stop there")
        parser.add_argument("--prune", action="store_true", help="drain what is stored and not in the file")

    def handle(self, **options: Any) -> None:
        try:
            with acting_as(at_the_shell()):
                apply_file(options["file"], options["dry_run"], options["prune"], out=self.stdout)
        except ConfigRefused as refused:
            mistakes = "\n".join(f"  {error}" for error in refused.errors)
            raise CommandError(
                f"{options['file']} is not applied, {counted(len(refused.errors), 'mistake')}:\n{mistakes}"
            ) from None
