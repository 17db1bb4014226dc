#!/usr/bin/env python
"""Django's command line for Berth; `manage.py help` lists the commands."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

NOTHING_RUNS = """{error}.

No installation runs here that could say it. Start one first (`make up`), name its home (BERTH_HOME=DIR), or set the
variables yourself: docs/configuration.md lists them. For a restore start its database alone (`manage.py up --only postgres`):
docs/deployment.md, "Restore with `manage.py up`"."""

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "broker_project.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        if "environment variable" not in str(error):
            raise
        sys.exit(NOTHING_RUNS.format(error=error))
