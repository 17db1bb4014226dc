"""The database wrapper: opening takes a connection from the pool, closing gives it back.

Django closes its connection after each request and Celery after each task, so a connection is held only while work is
done with it. How full the pool is (`saturation`) is what backpressure is to go by.
"""

from typing import Any

from django.db.backends.postgresql import base
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection

from broker_project.postgres_pool import deadline, pools

deadline.install()


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL with pooled connections. Raises OperationalError when no connection gets free within 5 s."""

    _lease: PoolProxiedConnection | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            self._lease = pools.take(conn_params, super().get_new_connection)
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
        pools.note_use()

    def saturation(self) -> float:
        """How full the pool of this process is, from 0 to 1: whoever can wait should, the nearer it is to 1."""
        return pools.saturation()

    def close_pool(self) -> None:
        """Ends the idle connections of this process, e.g. before a test database is dropped."""
        pools.close_all()
