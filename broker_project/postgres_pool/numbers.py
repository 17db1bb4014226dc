"""What the pools of a process tell Prometheus: how many connections are in use, and how long one waited for its own.

With PROMETHEUS_MULTIPROC_DIR the numbers of all processes of a machine are read together, each gauge with its `pid`.
"""

from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram

_used = Gauge("berth_database_connections_used", "Database connections in use.", ["role"], multiprocess_mode="liveall")
_size = Gauge(
    "berth_database_connections_size", "Database connections a process may use.", ["role"], multiprocess_mode="liveall"
)
_wait = Histogram(
    "berth_database_checkout_seconds",
    "Wait for a database connection, with connecting where it was a new one.",
    ["role"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 5.0),
)
_timeouts = Counter("berth_database_checkout_timeouts", "Waits for a database connection that were given up.", ["role"])


def took(role: str, seconds: float) -> None:
    """How long one waited for a connection, with or without getting one."""
    _of(role).wait.observe(seconds)


def gave_up(role: str) -> None:
    """A wait that ended without one."""
    _of(role).timeouts.inc()


def show(role: str, used: int, size: int) -> None:
    """How many connections of this process are in use now, and how many may be."""
    numbers = _of(role)
    numbers.used.set(used)
    numbers.size.set(size)


class _Numbers:
    """The series of one role, looked up once: this is done with every request and every task."""

    def __init__(self, role: str) -> None:
        self.used, self.size = _used.labels(role), _size.labels(role)
        self.wait, self.timeouts = _wait.labels(role), _timeouts.labels(role)


@lru_cache(maxsize=16)
def _of(role: str) -> _Numbers:
    return _Numbers(role)
