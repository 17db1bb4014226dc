"""`manage.py prepare`: schema, admin login and the operator's file; `up` runs it before anything is served."""

import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from statemachine.crashpoints import crashpoint
from statemachine.patience import patient

MIGRATION_LOCK = 7_266_401  # any number that nothing else in this database uses
LOGIN = "admin"


class Command(BaseCommand):
    help = "Migrates under a lock, makes the login `admin` from DJANGO_SUPERUSER_PASSWORD, and applies --config."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--only-schema", action="store_true", help="only migrate: no login, no file")
        parser.add_argument("--config", metavar="FILE", help="the file that `manage.py apply` takes")

    def handle(self, **options: Any) -> None:
        with one_at_a_time():
            crashpoint("prepare.locked")
            call_command("migrate", interactive=False, verbosity=0)
            crashpoint("prepare.migrated")
            if options["only_schema"]:
                return
            self._make_login(os.environ.get("DJANGO_SUPERUSER_PASSWORD", ""))
        crashpoint("prepare.login_made")
        if options["config"]:
            call_command("apply", options["config"])

    def _make_login(self, password: str) -> None:
        users = get_user_model()._default_manager
        known = users.filter(username=LOGIN).first()
        if known is None and password:
            users.create_superuser(username=LOGIN, email="", password=password)
        elif known is not None and password and not known.check_password(password):
            self.stdout.write(
                f"The login {LOGIN} keeps the password that it was given earlier, not the one of this home."
            )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two starts against one database migrate one after the other, whatever time the first takes."""
    with patient(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)")
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        cursor.execute("RESET lock_timeout")
    try:
        with patient():
            yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
            cursor.execute("RESET statement_timeout")
