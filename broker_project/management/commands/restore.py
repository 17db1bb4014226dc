"""`manage.py restore FILE`: puts a backup in the place of the database, with all pools closed until that is safe."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from broker_project.backup.archive import check, read_manifest
from broker_project.backup.errors import RestoreRefused
from broker_project.backup.putting_back import Plan, drop_earlier, examine, needed, put_back
from broker_project.backup.telling import progress, size_text
from broker_project.management.moments import FORM, past_moment
from broker_project.postgres_pool import pools

# The steps of docs/deployment.md that follow: their title there, and why. `{earlier}`: the database of before, if any.
STEPS: Final = (
    ("Put the files back", "those of tenants, where there are any"),
    (
        "Apply the configuration",
        "`manage.py apply FILE`, before anything starts: accounts, pools and types of the lost time are not there",
    ),
    (
        "Start Berth",
        "it accepts jobs and finds out what it can; `manage.py restored --status` says until when pools are closed, they open"
        " by themselves",
    ),
    ("Revoke", "API keys and logins that were revoked since the backup: they are valid again"),
    (
        "Look",
        "`manage.py doctor`, `manage.py audit`, and `manage.py reconcile_account --ask` where accounts have credits",
    ),
    ("Drop", "the database of before, {earlier}, when nobody needs it: `manage.py restore --drop {earlier}`"),
)


class Command(BaseCommand):
    help = (
        "Puts a backup in the place of the database. What is not whole, newer, or in use is refused; until the last step"
        " nothing of the database in use is touched, and it is kept beside under another name."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("path", type=Path, metavar="FILE", nargs="?")
        what.add_argument(
            "--drop",
            metavar="DATABASE",
            help="only drop this one, which an earlier restore kept beside (NAME_before_…)",
        )
        parser.add_argument("--replace", action="store_true", help="also where the database has jobs")
        parser.add_argument("--without-keys", action="store_true", help="also where keys of the backup are not here")
        parser.add_argument(
            "--quiet-since",
            type=past_moment,
            metavar="TIME",
            help=f"no process has called an upstream since, {FORM}; now, if absent",
        )
        parser.add_argument(
            "--check", action="store_true", help="only read all of it, and say what restoring it here needs"
        )

    def handle(self, **options: Any) -> None:
        connection.close()
        pools.close_all()  # what this process itself has open would be in its own way
        try:
            if options["drop"] is not None:
                drop_earlier(options["drop"])
                self.stdout.write(f"{options['drop']} is dropped")
                return
            path, told = options["path"], read_manifest(options["path"])
            self.stdout.write(f"{path}: {size_text(told['bytes'])}, as of {told['taken_at']}, Berth {told['version']}")
            if options["check"]:  # is told whatever stands in the way of restoring it
                self._check(path, told)
            plan = examine(path, told, without_keys=options["without_keys"])
            words = needed(plan, replace=options["replace"])
            if options["check"]:
                self._tell_needs(words)
                return
            if words:
                raise RestoreRefused("\n".join(words))
            self._check(path, told)
            arguments = [
                "--went-back-to",
                told["taken_at"],
                "--reason",
                f"restored from a backup of {told['taken_at']}",
            ]
            if options["quiet_since"]:
                arguments += ["--quiet-since", options["quiet_since"].isoformat()]
            earlier = put_back(plan, progress(self.stdout.write, "restored", told["bytes"]), arguments)
        except (RestoreRefused, OSError) as error:
            raise CommandError(str(error)) from error
        self._tell(plan, earlier)

    def _check(self, path: Path, told: Mapping[str, Any]) -> None:
        check(path, told, progress(self.stdout.write, "checked", told["bytes"]))
        self.stdout.write("It is whole.")

    def _tell_needs(self, words: list[str]) -> None:
        self.stdout.write("Before it can be restored here:" if words else "It could be restored here as things stand.")
        for word in words:
            self.stdout.write(f"  - {word}")

    def _tell(self, plan: Plan, earlier: str) -> None:
        self.stdout.write(f"{plan.target} is as it was at {plan.manifest['taken_at']}, and its pools are closed. Now:")
        for number, (title, why) in enumerate(STEPS, 1):
            if earlier or "{earlier}" not in why:
                self.stdout.write(f"  {number}. {title}: {why.format(earlier=earlier)}")
