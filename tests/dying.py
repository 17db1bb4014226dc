"""A process that dies at a crash point in the middle of one verb, on the database of the tests.

For gaps that a world under load does not come by. The process is forked from one that has Django and no connection yet.
"""

import importlib
import multiprocessing
import signal
from pathlib import Path
from typing import Any

from django.db import connection

from statemachine import crashpoints

SECONDS = 30


def dies_at(point: str, folder: Path, verb: str, *arguments: Any) -> None:
    """Runs `verb` ("module.function") in another process, which is killed at the point. Fails when it is not."""
    crashpoints.arm(folder, point)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_run, args=(str(connection.settings_dict["NAME"]), folder, verb, arguments))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL, f"{verb} did not come by {point}: exit code {process.exitcode}"
    assert crashpoints.victims(folder, point) == [process.pid]


def _run(database: str, folder: Path, verb: str, arguments: tuple[Any, ...]) -> None:
    import django

    django.setup()
    connection.settings_dict["NAME"] = database
    crashpoints._FOLDER = str(folder)  # type: ignore[misc]  # which a process reads when it starts
    module, _, name = verb.rpartition(".")
    getattr(importlib.import_module(module), name)(*arguments)
