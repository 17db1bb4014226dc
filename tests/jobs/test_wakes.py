"""A wake-up is a hint: with the broker dead or deaf a commit is not held up, and one outstanding is enough."""

import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.utils import timezone

from jobs import publisher, redis_hints, wakes
from tests import factories

MOST_SECONDS = {"redis": 1.0, "amqp": 2.0}
DEAF_SUBMIT_SECONDS = 2.0
SpeakTo = Callable[..., None]


@pytest.fixture
def speak_to(settings: Any) -> Iterator[SpeakTo]:
    """From now on Redis and the broker are at these addresses."""
    before = settings.REDIS_URL, settings.BROKER_URL

    def speak_to_(redis_url: str, broker_url: str) -> None:
        settings.REDIS_URL, settings.BROKER_URL = redis_url, broker_url
        redis_hints._client = None
        publisher.forget()
        for breaker in (redis_hints.breaker, publisher.breaker):
            breaker.close()

    yield speak_to_
    speak_to_(*before)


@pytest.fixture(params=["dead", "deaf"])
def silent_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port nobody listens at, or one where somebody listens and never answers."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        if request.param == "deaf":
            place.listen(16)
        yield port  # bound, so that nobody else listens there meanwhile


@pytest.fixture(params=["redis", "amqp"])
def silent_broker(request: pytest.FixtureRequest, speak_to: SpeakTo, silent_port: int) -> str:
    """The broker is there: the Redis of all hints, or a RabbitMQ beside a Redis that answers."""
    url = f"{request.param}://127.0.0.1:{silent_port}/0"
    speak_to(url if request.param == "redis" else django_settings.REDIS_URL, url)
    return str(request.param)


def quickest(wake: Callable[[], bool], times: int = 100) -> float:
    """Seconds of a wake-up that fails, again and again. What is tried takes its time-out each time; a slow machine, now and
    then.
    """
    took = []
    for _ in range(times):
        began = time.monotonic()
        assert wake() is False
        took.append(time.monotonic() - began)
    return sorted(took)[times // 2]


def lost(task: str) -> float:
    return float(wakes.lost.labels(task)._value.get())


@pytest.mark.parametrize("coalesce", [False, True])
def test_a_wake_up_that_cannot_be_sent_is_given_up_at_once(silent_broker: str, coalesce: bool) -> None:
    redis_hints.clear_flag("assign", (1,))
    before = lost("assign")
    began = time.monotonic()
    assert wakes.wake("assign", (1,), coalesce=coalesce) is False
    assert time.monotonic() - began < MOST_SECONDS[silent_broker]
    assert lost("assign") == before + 1


def test_after_a_failure_nothing_is_tried_for_a_while(silent_broker: str) -> None:
    wakes.wake("assign", (1,))
    assert quickest(lambda: wakes.wake("finish", (["x"],))) < publisher.PUBLISH_SECONDS


def test_every_connection_that_hangs_on_a_broken_broker_is_given_up(silent_broker: str) -> None:
    wakes.wake("assign", (1,))
    assert publisher._producers is None


@pytest.mark.django_db(transaction=True)
def test_a_submit_succeeds_without_the_broker(silent_broker: str) -> None:
    tenant, job_type = factories.make_tenant(), factories.make_job_type()
    began = time.monotonic()
    job = factories.submit(tenant, job_type)
    assert time.monotonic() - began < DEAF_SUBMIT_SECONDS
    job.refresh_from_db()
    assert (job.state, job.turn) == ("pending", 0.0)


def test_redis_is_asked_once_for_all_hints_when_it_is_the_broker_too(speak_to: SpeakTo, silent_port: int) -> None:
    url = f"redis://127.0.0.1:{silent_port}/0"
    speak_to(url, url)
    redis_hints.announce([{"id": 1}])
    assert quickest(lambda: wakes.wake("assign", (1,), coalesce=True)) < redis_hints.ANSWER_SECONDS


def test_without_redis_another_broker_gets_every_wake_up(speak_to: SpeakTo, broker: "redis.Redis") -> None:
    speak_to("redis://127.0.0.1:1/0", django_settings.BROKER_URL)
    assert [wakes.wake("assign", (7,), coalesce=True) for _ in "12"] == [True, True]
    wakes.awake("assign", (7,))
    assert broker.llen("assign") == 2


@pytest.fixture
def broker() -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete("assign", *client.scan_iter("berth:awake:*"))
        yield client
        client.delete("assign", *client.scan_iter("berth:awake:*"))


def test_a_second_wake_up_is_not_sent_until_the_first_was_heard(broker: "redis.Redis", settings: Any) -> None:
    settings.SWEEP_SECONDS = 60  # as long as the flag lives, however slow this machine is
    sent = lambda: broker.llen("assign")  # noqa: E731
    assert wakes.wake("assign", (7,), coalesce=True) is True
    assert wakes.wake("assign", (7,), coalesce=True) is False
    assert sent() == 1
    assert wakes.wake("assign", (8,), coalesce=True) is True  # another pool is another matter
    assert sent() == 2
    wakes.awake("assign", (7,))
    assert wakes.wake("assign", (7,), coalesce=True) is True
    assert sent() == 3


def test_a_flag_lives_no_longer_than_a_sweep(broker: "redis.Redis", settings: Any) -> None:
    settings.SWEEP_SECONDS = 20
    wakes.wake("assign", (7,), coalesce=True)
    (flag,) = broker.scan_iter("berth:awake:*")
    assert 0 < broker.pttl(flag) <= 20_000


def test_what_is_due_much_later_is_left_to_the_sweep(broker: "redis.Redis") -> None:
    later = timezone.now() + timedelta(seconds=wakes.LONGEST_COUNTDOWN_SECONDS + 5)
    assert wakes.wake("assign", (9,), due=later) is False
    assert broker.llen("assign") == 0
