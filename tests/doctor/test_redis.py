"""What the doctor says of Redis and the broker, asked of the real one with its settings spoiled."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings

from broker_project.doctor import of_redis


@pytest.fixture
def server() -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        before = client.config_get("maxmemory*")
        yield client
        for name in ("maxmemory", "maxmemory-policy"):
            client.config_set(name, before[name])


def test_one_that_answers_is_told_without_its_password() -> None:
    for found in (of_redis.reachable(), of_redis.broker()):
        assert (found.level, "@" in found.found) == ("ok", False)


def test_one_that_does_not_answer_is_an_error(settings: Any) -> None:
    settings.REDIS_URL = settings.BROKER_URL = "redis://:c4n4ry@127.0.0.1:1/0"
    for found in (of_redis.reachable(), of_redis.broker()):
        assert (found.level, "127.0.0.1:1/0 does not answer" in found.found) == ("error", True)
        assert "c4n4ry" not in found.found
    settings.BROKER_URL = "amqp://berth:c4n4ry@127.0.0.1:1//"
    found = of_redis.broker()
    assert (found.level, "c4n4ry" in found.found) == ("error", False)


def test_one_that_would_drop_messages_is_an_error(server: "redis.Redis") -> None:
    assert of_redis.eviction().level == "ok"
    server.config_set("maxmemory-policy", "allkeys-lru")
    found = of_redis.eviction()
    assert (found.level, "maxmemory-policy allkeys-lru" in found.found) == ("error", True)


def test_one_that_is_nearly_full_is_told(server: "redis.Redis") -> None:
    server.config_set("maxmemory", server.info("memory")["used_memory"] + 100_000)
    assert of_redis.eviction().level == "warning"


def test_it_says_what_of_it_outlives_a_crash() -> None:
    found = of_redis.persistence()
    assert (found.level, found.found) == ("ok", "append-only file")


def test_queues_that_nobody_takes_from_are_named() -> None:
    found = of_redis.queues()
    assert (found.level, "assign, transitions, upstream" in found.found) == ("error", True)
