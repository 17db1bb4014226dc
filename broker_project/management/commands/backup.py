"""`manage.py backup FILE|FOLDER`: the database in one file, of one moment, while everything runs."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from broker_project.backup.errors import BackupFailed
from broker_project.backup.taking import take
from broker_project.backup.telling import progress, size_text


class Command(BaseCommand):
    help = (
        "Writes the database, as it is now, into a file; whole or not at all. In a folder it gets a name with the time."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="FILE|FOLDER")

    def handle(self, **options: Any) -> None:
        path: Path = options["path"]
        if path.is_dir():
            path /= f"berth-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup"
        try:
            told = take(path, progress(self.stdout.write, "written"))
        except (BackupFailed, OSError) as error:
            raise CommandError(f"no backup was made: {error}") from error
        self.stdout.write(
            f"{path}: {size_text(told['bytes'])}, as of {told['taken_at']}, Berth {told['version']},"
            f" {told['jobs']} jobs under way"
        )
        self.stdout.write("It does not hold:")
        for what in told["not_held"]:
            self.stdout.write(f"  - {what}")
        if told["files"]:
            self.stdout.write(f"    ({told['files']} files of {size_text(told['file_bytes'])})")
