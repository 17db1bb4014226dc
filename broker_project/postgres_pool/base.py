"""The database wrapper: opening takes a connection from the pool, closing gives it back.

Django closes its connection after each request and Celery after each task, so a connection is held only while work is
done with it. How full the pool is (`pool_status`) is the backpressure signal.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

CHECKOUT_SECONDS = 5
IDLE_SECONDS_BEFORE_PING = 1.0
RECYCLE_SECONDS = 600

_pools: dict[str, QueuePool] = {}
_pools_lock = threading.Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL with pooled connections. Raises OperationalError when no connection gets free within 5 s."""

    _lease: PoolProxiedConnection | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        pool = _pool_for(conn_params, super().get_new_connection)
        try:
            self._lease = pool.connect()
        except PoolTimeout as error:
            raise self.Database.OperationalError(f"no database connection became free: {error}") from error
        return self._lease.driver_connection

    def _close(self) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            super()._close()  # type: ignore[misc]
            return
        if self.errors_occurred and not self.is_usable():
            lease.invalidate()
        lease.close()

    def close_pool(self) -> None:
        """Ends the idle connections of this process, e.g. before a test database is dropped."""
        with _pools_lock:
            for pool in _pools.values():
                pool.dispose()
            _pools.clear()


def pool_status() -> dict[str, int]:
    """Connections of this process: `size` allowed, `used` now. The source of the saturation metric."""
    with _pools_lock:
        return {
            "size": settings.DATABASE_POOL_SIZE * max(1, len(_pools)),
            "used": sum(pool.checkedout() for pool in _pools.values()),
        }


def _pool_for(conn_params: dict[str, Any], connect: Callable[[dict[str, Any]], Any]) -> QueuePool:
    key = repr(sorted((name, str(value)) for name, value in conn_params.items()))
    with _pools_lock:
        if key not in _pools:
            _pools[key] = _new_pool(lambda: connect(conn_params))
        return _pools[key]


def _new_pool(connect: Callable[[], Any]) -> QueuePool:
    pool = QueuePool(
        connect,
        pool_size=settings.DATABASE_POOL_SIZE,
        max_overflow=0,
        timeout=CHECKOUT_SECONDS,
        recycle=RECYCLE_SECONDS,
        use_lifo=True,
    )
    event.listen(pool, "checkin", _note_return)
    event.listen(pool, "checkout", _ping_when_idle)
    return pool


def _note_return(connection: Any, record: Any) -> None:
    record.info["returned"] = time.monotonic()
    if connection is not None and not connection.closed:
        # The pool has rolled back; whoever comes next begins as with a fresh one, and its ping opens no transaction.
        connection.autocommit = True


def _ping_when_idle(connection: Any, record: Any, _proxy: Any) -> None:
    """A connection that rested may be dead (the server restarted): ask before it is used, and let the pool replace it."""
    returned = record.info.get("returned")
    if returned is None or time.monotonic() - returned < IDLE_SECONDS_BEFORE_PING:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Exception as error:
        raise DisconnectionError(str(error)) from error
