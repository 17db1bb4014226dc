"""A connection to the broker that gives up at once: publishing must never hold up the commit that came before it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from celery import current_app
from django.conf import settings
from kombu.pools import ProducerPool

from jobs.breaker import Breaker
from jobs.redis_transport import Connection

PUBLISH_SECONDS = 0.08
HANDSHAKE_SECONDS = 0.2  # AMQP greets in several steps; a silent broker is waited for once, then the breaker is open
ASK_SECONDS = 1.0  # of the breaker's question, which nobody waits for
MOST_PRODUCERS = 8
# Transports whose every wait is bounded, by the scheme of the URL. Redis has time-outs as options.
_AMQP = {
    "amqp": "jobs.amqp_transport:Transport",
    "pyamqp": "jobs.amqp_transport:Transport",
    "amqps": "jobs.amqp_transport:SSLTransport",
}

_setup = threading.Lock()
_producers: Any = None
_retired: list[Any] = []


def publish(task: str, arguments: list[Any], countdown: float) -> None:
    """Sends one message; raises whatever the broker's client raises, within about PUBLISH_SECONDS."""
    with _producer() as producer:
        current_app.send_task(task, args=arguments, countdown=countdown or None, producer=producer, retry=False)


def is_redis() -> bool:
    """Whether the broker is the Redis that carries the other hints too."""
    return bool(settings.BROKER_URL == settings.REDIS_URL)


def forget() -> None:
    """The next message goes by new connections; those there are end when the breaker asks next."""
    global _producers  # noqa: PLW0603  one pool of producers per process
    with _setup:
        if _producers is not None:
            _retired.append(_producers)
        _producers = None


@contextmanager
def _producer() -> Iterator[Any]:
    pool = _pool()
    try:
        with pool.acquire(block=True, timeout=PUBLISH_SECONDS) as producer:
            yield producer
    except Exception:
        # The others of the pool hang on the same broker: each would fail once more after it is back.
        forget()
        raise


def _pool() -> Any:
    global _producers  # noqa: PLW0603  one pool of producers per process
    with _setup:
        if _producers is None:
            connections = _connection(PUBLISH_SECONDS, HANDSHAKE_SECONDS).Pool(MOST_PRODUCERS)
            _producers = ProducerPool(connections, MOST_PRODUCERS)
        return _producers


def _connection(seconds: float, handshake_seconds: float) -> Connection:
    scheme = settings.BROKER_URL.partition("://")[0]
    options: dict[str, Any] = {"max_retries": 0}  # of connecting; Kombu's own pauses between them take seconds
    if scheme.startswith("redis"):
        options |= {"socket_timeout": seconds, "socket_connect_timeout": seconds}
    elif scheme in _AMQP:
        options |= {"read_timeout": seconds, "write_timeout": seconds}
    return Connection(
        settings.BROKER_URL,
        connect_timeout=handshake_seconds,
        heartbeat=0,
        transport=_AMQP.get(scheme),
        transport_options=options,
    )


def _ask() -> None:
    """Ends what is left of the connections that failed, and opens a new one."""
    while _retired:
        with suppress(Exception):  # they are of no use any more
            _retired.pop().connections.force_close_all()
    with _connection(ASK_SECONDS, ASK_SECONDS) as connection:
        connection.default_channel  # noqa: B018  opens it, which asks the broker


breaker = Breaker("The broker", _ask)
