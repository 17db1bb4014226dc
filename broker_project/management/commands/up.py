"""`manage.py up`: starts all of Berth on this machine, restarts what dies, and stops everything on Ctrl-C."""

import errno
import os
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.launch import ALL_ROLES, Launch, Options

LAST_PORT = 65535


class Command(BaseCommand):
    help = "Starts everything (database, Valkey, web, live, workers, beat, Flower) and keeps it running."
    # There may be no database yet, and this process never opens one.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--config", type=Path, metavar="FILE", help="apply this file before anything is served")
        parser.add_argument(
            "--home", type=Path, metavar="DIR", help="data, logs and run.json (default: $BERTH_HOME, or var)"
        )
        parser.add_argument(
            "--port", type=int, default=8000, metavar="N", help="web's port, or the next free one (default: 8000)"
        )
        parser.add_argument(
            "--only", type=_role_names, default=ALL_ROLES, metavar="ROLES", help="a comma list of roles to start"
        )

    def handle(self, **options: Any) -> None:
        # Private files say so themselves; what the user nobody must reach may not depend on the caller's shell.
        os.umask(0o022)
        if not 1 <= options["port"] <= LAST_PORT:
            raise CommandError(f"--port is from 1 to {LAST_PORT}, not {options['port']}")
        config: Path | None = options["config"]
        if config and not config.is_file():
            raise CommandError(f"{config} is not a file")
        home: Path = (options["home"] or settings.HOME).absolute()
        chosen = Options(home, options["port"], config.absolute() if config else None, options["only"])
        try:
            Launch(chosen, Console()).run()
        except StartFailed as failure:
            raise CommandError(str(failure)) from None
        except OSError as error:  # read-only, no right to write, or no room: a trace of ours would not help
            full = "disk full: " if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
            raise CommandError(f"{full}{home} cannot be used: {error}") from None


def _role_names(text: str) -> frozenset[str]:
    """Raises ArgumentTypeError."""
    names = frozenset(text.split(","))
    if unknown := names - ALL_ROLES:
        raise ArgumentTypeError(f"no such role: {', '.join(sorted(unknown))}; there are {', '.join(sorted(ALL_ROLES))}")
    return names
