"""A process of Berth, as far as the database sees one: a connection that bears its name."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import Context
from typing import Any

import pytest
from django.db import connection

from broker_project.process import application_name
from statemachine.actors import current_actor, name_process

Connected = Callable[[str], Any]


@pytest.fixture
def connected() -> Iterator[Connected]:
    """Opens a connection as a process of this name would, and returns it. It is closed after the test."""
    with ExitStack() as opened:

        def connect(name: str) -> Any:
            with named(name):
                # Past the pool, which would keep it open for others.
                other = connection.Database.connect(
                    **{**connection.get_connection_params(), "application_name": application_name()}
                )
            other.autocommit = True
            return opened.enter_context(closing(other))

        yield connect


@contextmanager
def named(name: str) -> Iterator[None]:
    before = Context().run(current_actor)
    name_process(name)
    try:
        yield
    finally:
        name_process(before)
