"""What this process is called: its role in the logs, its name at the database."""

import os
import re
import sys
from contextvars import Context
from functools import lru_cache
from pathlib import Path

from statemachine.actors import current_actor

_ODD = re.compile(r"[^A-Za-z0-9_.:-]+")


def role() -> str:
    """`web`, `live`, `beat`, `worker:upstream`; of a process that has no name (yet), the command that was typed."""
    # In an empty context nobody more specific than the process acts.
    return _role_of(Context().run(current_actor))


def application_name() -> str:
    """The name of this process's connections in pg_stat_activity: `berth web 4711`, of at most 63 bytes."""
    return f"berth {role()[:40]} {os.getpid()}"


@lru_cache(maxsize=16)
def _role_of(name: str) -> str:
    bare = name.removeprefix("process:")
    return _ODD.sub("_", _command() if bare.isdigit() else bare.partition("@")[0])


def _command() -> str:
    typed = Path(sys.argv[0] or "python")
    if typed.name == "manage.py":
        return next(iter(sys.argv[1:]), "manage")
    return typed.parent.name if typed.name == "__main__.py" else typed.stem
