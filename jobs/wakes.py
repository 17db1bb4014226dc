"""Publishing wake-ups: hints to hurry, never the truth. A failed publish is counted and forgotten; the sweep finds it.

Sending to a dead or deaf broker must not hold up a submit: connections made here give up after a tenth of a second, and
after a failure nothing is tried for a second. Wake-ups that are due much later are left to the sweep.
"""

import logging
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from prometheus_client import Counter

from jobs.publisher import NO_RETRY, PUBLISH_SECONDS, publish

logger = logging.getLogger(__name__)

BREAKER_SECONDS = 1.0
LONGEST_COUNTDOWN_SECONDS = 30.0

published = Counter("berth_wakes_published", "Wake-ups sent.", ["task"])
lost = Counter("berth_wakes_lost", "Wake-ups that could not be sent; the sweep does their work.", ["task"])

_broken_until = 0.0
_setup = threading.Lock()
_flags_client: "redis.Redis | None" = None


def wake(task: str, arguments: Sequence[Any], *, due: datetime | None = None, coalesce: bool = False) -> bool:
    """Publishes `jobs.<task>`; False when it was not sent (broker away, already awake, or due too far ahead)."""
    global _broken_until  # noqa: PLW0603  the breaker of this process
    countdown = max(0.0, due.timestamp() - time.time()) if due else 0.0
    if countdown > LONGEST_COUNTDOWN_SECONDS:
        return False
    if time.monotonic() < _broken_until:
        lost.labels(task).inc()
        return False
    try:
        if coalesce and not _raise_flag(task, arguments):
            return False
        publish(f"jobs.{task}", list(arguments), countdown)
    except Exception as error:  # noqa: BLE001  whatever the broker's client raises, the commit stands
        _broken_until = time.monotonic() + BREAKER_SECONDS
        lost.labels(task).inc()
        logger.warning("wake-up of %s lost, the sweep will do it: %s", task, error)
        return False
    published.labels(task).inc()
    return True


def awake(task: str, arguments: Sequence[Any]) -> None:
    """The consumer clears the flag before it looks, so that what comes after wakes it again."""
    if time.monotonic() < _broken_until:
        return
    try:
        _flags().delete(_flag(task, arguments))
    except redis.RedisError as error:
        logger.warning("flag of %s not cleared, it ends by itself: %s", task, error)


def _raise_flag(task: str, arguments: Sequence[Any]) -> bool:
    """True for the first to raise it. It lives no longer than a sweep, so a lost message costs no more than that."""
    return bool(_flags().set(_flag(task, arguments), "1", nx=True, px=int(settings.SWEEP_SECONDS * 1000)))


def _flag(task: str, arguments: Sequence[Any]) -> str:
    return f"berth:awake:{task}:{':'.join(str(argument) for argument in arguments)}"


def _flags() -> "redis.Redis":
    global _flags_client  # noqa: PLW0603  one client per process
    with _setup:
        if _flags_client is None:
            _flags_client = redis.Redis.from_url(
                settings.REDIS_URL,
                socket_timeout=PUBLISH_SECONDS,
                socket_connect_timeout=PUBLISH_SECONDS,
                retry=NO_RETRY,
            )
        return _flags_client
