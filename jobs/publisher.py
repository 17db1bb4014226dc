"""A connection to the broker that gives up at once: publishing must never hold up the commit that came before it."""

import threading
from typing import Any

from celery import current_app
from django.conf import settings
from kombu import Connection, pools
from kombu.transport import redis as redis_transport
from redis.backoff import NoBackoff
from redis.retry import Retry

PUBLISH_SECONDS = 0.08
NO_RETRY = Retry(NoBackoff(), 0)  # redis-py's own default pauses for seconds between tries
MOST_PRODUCERS = 8

_setup = threading.Lock()
_producers: Any = None


def publish(task: str, arguments: list[Any], countdown: float) -> None:
    """Sends one message; raises whatever the broker's client raises, within about PUBLISH_SECONDS."""
    with _pool().acquire(block=True, timeout=PUBLISH_SECONDS) as producer:
        current_app.send_task(task, args=arguments, countdown=countdown or None, producer=producer, retry=False)


class _Channel(redis_transport.Channel):  # type: ignore[misc]
    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        return {**super()._connparams(asynchronous), "retry": NO_RETRY}


class _Transport(redis_transport.Transport):  # type: ignore[misc]
    Channel = _Channel


def _pool() -> Any:
    global _producers  # noqa: PLW0603  one pool of producers per process
    with _setup:
        if _producers is None:
            options: dict[str, Any] = {"connect_timeout": PUBLISH_SECONDS, "heartbeat": 0}
            if settings.BROKER_URL.startswith("redis"):
                timeouts = {"socket_timeout": PUBLISH_SECONDS, "socket_connect_timeout": PUBLISH_SECONDS}
                options |= {"transport": _Transport, "transport_options": {**timeouts, "max_retries": 0}}
            _producers = pools.Producers(limit=MOST_PRODUCERS)[Connection(settings.BROKER_URL, **options)]
        return _producers
