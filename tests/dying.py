"""A process that dies at a crash point in the middle of one verb, on the database of the tests.

For gaps that a world under load does not come by.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from tests import arming

SECONDS = 60


def dies_at(point: str, folder: Path, verb: str, *arguments: Any) -> None:
    """Runs `verb` ("module.function") in another process, which is killed at the point. Fails when it is not."""
    arming.arm(folder, point)
    command = [sys.executable, "-m", "tests.dying", str(connection.settings_dict["NAME"]), verb, json.dumps(arguments)]
    environment = {**os.environ, "CRASHPOINTS": str(folder)}
    died = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert died.returncode == -signal.SIGKILL, f"{verb} did not come by {point}: {died.stderr}"
    assert len(arming.victims(folder, point)) == 1


def _run(database: str, verb: str, arguments: str) -> None:
    import django

    django.setup()
    connection.settings_dict["NAME"] = database
    module, _, name = verb.rpartition(".")
    getattr(importlib.import_module(module), name)(*json.loads(arguments))


if __name__ == "__main__":
    _run(*sys.argv[1:])
