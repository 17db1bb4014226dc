"""Telling those who wait that jobs moved: one message with their ids, after commit, on a channel of Redis.

A hint like any wake-up: with Redis away it is dropped, and whoever waits sees the change in the database a second later.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from django.conf import settings
from prometheus_client import Counter

from jobs.publisher import NO_RETRY, PUBLISH_SECONDS

logger = logging.getLogger(__name__)
CHANNEL = "berth:jobs"
BREAKER_SECONDS = 1.0

lost = Counter("berth_live_events_lost", "Announcements that could not be sent; those who wait look each second.")

_broken_until = 0.0
_setup = threading.Lock()
_client: "redis.Redis | None" = None


def announce(rows: Sequence[Mapping[str, Any]]) -> None:
    """Says that the jobs of these rows (`id`) have a new version. Never raises, never waits long."""
    global _broken_until  # noqa: PLW0603  the breaker of this process
    if not rows or time.monotonic() < _broken_until:
        return
    try:
        _redis().publish(CHANNEL, json.dumps([str(row["id"]) for row in rows]))
    except redis.RedisError as error:
        _broken_until = time.monotonic() + BREAKER_SECONDS
        lost.inc()
        logger.warning("those who wait were not told, they will look: %s", error)


def reachable() -> bool:
    """Whether Redis answers now."""
    try:
        return bool(_redis().ping())
    except redis.RedisError:
        return False


def _redis() -> "redis.Redis":
    global _client  # noqa: PLW0603  one client per process
    with _setup:
        if _client is None:
            _client = redis.Redis.from_url(
                settings.REDIS_URL,
                socket_timeout=PUBLISH_SECONDS,
                socket_connect_timeout=PUBLISH_SECONDS,
                retry=NO_RETRY,
            )
        return _client
