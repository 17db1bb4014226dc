"""Who acts: the name written into the history of every move made in this context."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str | None] = ContextVar("berth_actor", default=None)
_process_name = f"process:{os.getpid()}"


def current_actor() -> str:
    """The actor of this context, e.g. `tenant:acme`, `admin:root`, `shell:anna`, `worker:upstream@host`."""
    return _actor.get() or _process_name


def name_process(name: str) -> None:
    """Says what this process is called in the history when no one more specific acts."""
    global _process_name  # noqa: PLW0603  one process, one name
    _process_name = name


def at_the_shell() -> str:
    """Who typed a command, for `acting_as`: `shell:` and the user of the operating system."""
    try:
        return f"shell:{getpass.getuser()}"
    except (OSError, KeyError):  # a container whose user has no name; before Python 3.13 that is a KeyError
        return "shell"


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Everything moved inside is recorded as done by `name`."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)
