"""What we tell each other through Redis: that a wake-up is on its way, and that jobs moved. Hints, never the truth.

One client and one breaker for the process. With Redis away or deaf nothing here raises or waits long: wake-ups are then
sent without coalescing, and whoever waits for a job sees its change in the database a second later.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from django.conf import settings
from prometheus_client import Counter
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs.breaker import Breaker

CHANNEL = "berth:jobs"
ANSWER_SECONDS = 0.08  # the longest that one hint may hold up what comes after a commit
NO_RETRY = Retry(NoBackoff(), 0)  # redis-py's own default pauses for seconds between tries

lost = Counter("berth_live_events_lost", "Announcements that could not be sent; those who wait look each second.")

_setup = threading.Lock()
_client: "redis.Redis | None" = None


def announce(rows: Sequence[Mapping[str, Any]]) -> None:
    """Says that the jobs of these rows (`id`) have a new version."""
    if not rows:
        return
    if not breaker.closed:
        lost.inc()
        return
    try:
        client().publish(CHANNEL, json.dumps([str(row["id"]) for row in rows]))
    except redis.RedisError as error:
        lost.inc()
        breaker.failed(error)


def raise_flag(task: str, arguments: Sequence[Any]) -> bool:
    """False when it is up already: a wake-up of this task for these arguments is on its way. True when in doubt.

    It lives no longer than a sweep, so a lost message costs no more than that.
    """
    if not breaker.closed:
        return True
    try:
        milliseconds = int(settings.SWEEP_SECONDS * 1000)
        return bool(client().set(_flag(task, arguments), "1", nx=True, px=milliseconds))
    except redis.RedisError as error:
        breaker.failed(error)
        return True


def clear_flag(task: str, arguments: Sequence[Any]) -> None:
    """What comes after this sends a wake-up again. With Redis away the flag ends by itself."""
    if not breaker.closed:
        return
    try:
        client().delete(_flag(task, arguments))
    except redis.RedisError as error:
        breaker.failed(error)


def reachable() -> bool:
    """Whether Redis answers now."""
    try:
        return bool(client().ping())
    except redis.RedisError:
        return False


def client() -> "redis.Redis":
    """The client of this process, which gives up at once."""
    global _client  # noqa: PLW0603  one client per process
    with _setup:
        if _client is None:
            _client = redis.Redis.from_url(
                settings.REDIS_URL,
                socket_timeout=ANSWER_SECONDS,
                socket_connect_timeout=ANSWER_SECONDS,
                retry=NO_RETRY,
            )
        return _client


def _flag(task: str, arguments: Sequence[Any]) -> str:
    return f"berth:awake:{task}:{':'.join(str(argument) for argument in arguments)}"


breaker = Breaker("Redis", lambda: client().ping())
