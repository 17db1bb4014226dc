"""`manage.py backup FILE|FOLDER`: the database in one file, of one moment, while everything runs."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker_project.backup.errors import BackupFailed
from broker_project.backup.taking import take
from broker_project.backup.telling import progress, size_text
from upstream.quantities import counted


class Command(BaseCommand):
    help = (
        "Writes the database, as it is now, into a file; whole or not at all. In a folder it gets a name with the time."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "path",
            metavar="FILE|FOLDER",
            help="a folder that is there, or a file that is not, with a suffix (x.backup)",
        )

    def handle(self, **options: Any) -> None:
        path = _file(options["path"])
        try:
            told = take(path, progress(self.stdout.write, "written"))
        except (BackupFailed, OSError) as error:
            raise CommandError(f"no backup was made: {error}") from error
        self.stdout.write(
            f"{path}: {size_text(told['bytes'])}, as of {told['taken_at']}, Berth {told['version']},"
            f" {counted(told['jobs'], 'job')} under way"
        )
        self.stdout.write("It does not hold:")
        for what in told["not_held"]:
            self.stdout.write(f"  - {what}")
        if told["files"]:
            self.stdout.write(f"    ({counted(told['files'], 'file')} of {size_text(told['file_bytes'])})")
        if (secrets := settings.HOME / "secrets.json").is_file():
            self.stdout.write(f"Keep a copy of {secrets} apart from it: `manage.py up` takes the keys from there")


def _file(text: str) -> Path:
    """Where to write. Raises CommandError where a folder seems to be meant that is not there."""
    path = Path(text)
    if path.is_dir():
        return path / f"berth-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup"
    if text.endswith("/") or (not path.suffix and not path.exists()):
        raise CommandError(f"there is no folder {path}; make it, or name a file ({path}.backup)")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent}; make it first")
    return path
