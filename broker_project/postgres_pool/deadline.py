"""A deadline for every answer of the database: psycopg2 by itself waits for ever.

psycopg2 hands the wait to a function of ours ("Coroutine support" in its manual); it costs 2 µs of a statement. When that
raises, psycopg2 closes the connection, so the pool drops it. COPY cannot be used with it.
"""

import math
import select
import time
from typing import Any

from psycopg2 import OperationalError, extensions

from statemachine import patience

CONNECT_SECONDS = 5.0  # at most; libpq itself does not keep its connect_timeout here
CONNECTED = (extensions.STATUS_READY, extensions.STATUS_BEGIN, extensions.STATUS_PREPARED)


def install() -> None:
    """For all connections of this process."""
    extensions.set_wait_callback(wait)


def wait(connection: Any) -> None:
    """Returns when the connection has its answer; raises OperationalError when it takes too long."""
    state = connection.poll()
    if state == extensions.POLL_OK:
        return
    longest = patience.seconds() if connection.status in CONNECTED else _to_connect(connection)
    until, ready = time.monotonic() + longest, select.poll()
    while state != extensions.POLL_OK:
        socket = connection.fileno()  # of each host that is tried another
        ready.register(socket, select.POLLIN if state == extensions.POLL_READ else select.POLLOUT)
        left = until - time.monotonic()
        if not ready.poll(None if left == math.inf else max(0.0, left * 1000)):
            raise OperationalError(f"the database did not answer within {longest:g} s")
        ready.unregister(socket)
        state = connection.poll()


def _to_connect(connection: Any) -> float:
    return min(CONNECT_SECONDS, float(extensions.parse_dsn(connection.dsn).get("connect_timeout", CONNECT_SECONDS)))
