"""`manage.py issue_key TENANT`: makes an API key and prints it, alone, on the last line.

With several tenants the last lines are `TENANT KEY`, one for each, in the order asked for.
"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from statemachine.actors import acting_as, at_the_shell
from tenants import keys
from tenants.models import Tenant


class Command(BaseCommand):
    help = "Makes an API key for a tenant. The last line is the key; it cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenants", nargs="+", metavar="tenant", help="name of a tenant")
        parser.add_argument("--name", default="", help="what the key is for")
        parser.add_argument(
            "--scopes", default=",".join(keys.DEFAULT_SCOPES), help=f"comma-separated, of {', '.join(keys.SCOPES)}"
        )

    def handle(self, **options: Any) -> None:
        names: list[str] = options["tenants"]
        known = {tenant.name: tenant for tenant in Tenant.objects.filter(name__in=names)}
        if unknown := [name for name in names if name not in known]:
            raise CommandError(f"there is no tenant {', '.join(map(repr, unknown))}")
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            with acting_as(at_the_shell()):
                issued = [keys.issue(known[name], options["name"], scopes) for name in names]
        except keys.UnknownScope as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"For {', '.join(names)} with {', '.join(scopes)}; not shown again:")
        for name, key in zip(names, issued, strict=True):
            self.stdout.write(key if len(names) == 1 else f"{name} {key}")
