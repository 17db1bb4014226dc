"""The connection pools of this process: made at the first use, checked when a connection rested, named by the process."""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from django.conf import settings
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from broker_project.postgres_pool import numbers
from broker_project.process import application_name, role
from statemachine import patience

CHECKOUT_SECONDS = 5.0
IDLE_SECONDS_BEFORE_PING = 1.0
PING_SECONDS = 2.0
RECYCLE_SECONDS = 600

SHOWN_SECONDS = 0.1  # how full the pools are is shown at most so often: it costs as much as a checkout

Connect = Callable[[dict[str, Any]], Any]
_pools: dict[Hashable, QueuePool] = {}
_lock = threading.Lock()
_showing = threading.Lock()
_shown_at, _shown_used = 0.0, 0


def take(conn_params: dict[str, Any], connect: Connect) -> PoolProxiedConnection:
    """A connection for these parameters; raises sqlalchemy.exc.TimeoutError when none gets free in CHECKOUT_SECONDS."""
    pool = _pool_for(conn_params, connect)
    began = time.perf_counter()
    try:
        lease = pool.connect()
    except PoolTimeout:
        numbers.gave_up(role())
        raise
    finally:
        numbers.took(role(), time.perf_counter() - began)
    note_use()
    return lease


def status() -> dict[str, int]:
    """Connections of this process: `size` allowed, `used` now."""
    with _lock:
        return {
            "size": settings.DATABASE_POOL_SIZE * max(1, len(_pools)),
            "used": sum(pool.checkedout() for pool in _pools.values()),
        }


def saturation() -> float:
    """How full the pools of this process are, from 0 to 1: at 1 the next who wants a connection waits for one."""
    now = status()
    return min(1.0, now["used"] / now["size"])


def note_use() -> None:
    """Called after each taking and each giving back. At least that nothing is in use any more is shown at once."""
    global _shown_at, _shown_used
    due = time.monotonic() - _shown_at >= SHOWN_SECONDS
    if not due and not _shown_used:
        return
    with _showing:
        now = status()
        if due or not now["used"]:
            _shown_at, _shown_used = time.monotonic(), now["used"]
            numbers.show(role(), **now)


def close_all() -> None:
    """Ends the idle connections of this process, e.g. before a test database is dropped."""
    with _lock:
        for pool in _pools.values():
            pool.dispose()
        _pools.clear()


def _pool_for(conn_params: dict[str, Any], connect: Connect) -> QueuePool:
    key = tuple(conn_params.items())
    with _lock:
        if key not in _pools:
            _pools[key] = _new_pool(conn_params, connect)
        return _pools[key]


def _new_pool(conn_params: Mapping[str, Any], connect: Connect) -> QueuePool:
    ours = "application_name" not in conn_params  # else the operator named the connections

    def connect_named() -> Any:
        return connect({**conn_params, **({"application_name": application_name()} if ours else {})})

    pool = QueuePool(
        connect_named,
        pool_size=settings.DATABASE_POOL_SIZE,
        max_overflow=0,
        timeout=CHECKOUT_SECONDS,
        recycle=RECYCLE_SECONDS,
        use_lifo=True,
    )
    event.listen(pool, "checkin", _note_return)
    event.listen(pool, "checkout", _make_ready)
    if ours:
        event.listen(pool, "connect", _note_name)
    return pool


def _note_return(connection: Any, record: Any) -> None:
    record.info["returned"] = time.monotonic()
    if connection is not None and not connection.closed:
        # The pool has rolled back; whoever comes next begins as with a fresh one, and its ping opens no transaction.
        connection.autocommit = True


def _make_ready(connection: Any, record: Any, _proxy: Any) -> None:
    """A connection that rested may be dead (the server restarted): ask before it is used, and let the pool replace it.

    A process learns its role after its first connections: they take the name the next time they are used.
    """
    info = record.info
    returned = info.get("returned")
    if returned is None:
        return
    if "name" in info and info["name"] != (name := application_name()):
        _ask(connection, "SELECT set_config('application_name', %s, false)", [name])
        info["name"] = name
    elif time.monotonic() - returned >= IDLE_SECONDS_BEFORE_PING:
        _ask(connection, "SELECT 1")


def _note_name(_connection: Any, record: Any) -> None:
    record.info["name"] = application_name()


def _ask(connection: Any, sql: str, parameters: list[str] | None = None) -> None:
    """Raises DisconnectionError, for which the pool connects anew."""
    try:
        with patience.patient(PING_SECONDS), connection.cursor() as cursor:
            cursor.execute(sql, parameters)
    except Exception as error:
        raise DisconnectionError(str(error)) from error
