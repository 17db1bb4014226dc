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

from jobs import publisher, wakes
from tests import factories

MOST_SECONDS = 0.2
DEAF_SUBMIT_SECONDS = 0.5


@pytest.fixture
def speak_to(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on the broker is at this port of ours."""

    def speak_to_(port: int) -> None:
        settings.REDIS_URL = settings.BROKER_URL = f"redis://127.0.0.1:{port}/0"
        for place, name, value in (
            (wakes, "_flags_client", None),
            (wakes, "_broken_until", 0.0),
            (publisher, "_producers", None),
        ):
            monkeypatch.setattr(place, name, value)

    return speak_to_


@pytest.fixture(params=["dead", "deaf"])
def silent_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port nobody listens at, or one where somebody listens and never answers."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        if request.param == "deaf":
            place.listen(16)
            yield port
    if request.param == "dead":
        yield port


@pytest.mark.parametrize("coalesce", [False, True])
def test_a_wake_up_that_cannot_be_sent_is_given_up_at_once(
    speak_to: Callable[[int], None], silent_port: int, coalesce: bool
) -> None:
    speak_to(silent_port)
    lost = wakes.lost.labels("assign")._value.get()
    began = time.monotonic()
    assert wakes.wake("assign", (1,), coalesce=coalesce) is False
    assert time.monotonic() - began < MOST_SECONDS
    assert wakes.lost.labels("assign")._value.get() == lost + 1


def test_after_a_failure_nothing_is_tried_for_a_while(speak_to: Callable[[int], None], silent_port: int) -> None:
    speak_to(silent_port)
    wakes.wake("assign", (1,))
    began = time.monotonic()
    assert not any(wakes.wake("finish", (["x"],)) for _ in range(100))
    wakes.awake("assign", (1,))
    assert time.monotonic() - began < publisher.PUBLISH_SECONDS


@pytest.mark.django_db(transaction=True)
def test_a_submit_succeeds_without_the_broker(speak_to: Callable[[int], None], silent_port: int) -> None:
    tenant, job_type = factories.make_tenant(), factories.make_job_type()
    speak_to(silent_port)
    began = time.monotonic()
    job = factories.submit(tenant, job_type)
    assert time.monotonic() - began < DEAF_SUBMIT_SECONDS
    job.refresh_from_db()
    assert (job.state, job.turn) == ("pending", 0.0)


@pytest.fixture
def broker() -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete("assign", *client.scan_iter("berth:awake:*"))
        yield client
        client.delete("assign", *client.scan_iter("berth:awake:*"))


def test_a_second_wake_up_is_not_sent_until_the_first_was_heard(broker: "redis.Redis") -> None:
    sent = lambda: broker.llen("assign")  # noqa: E731
    assert wakes.wake("assign", (7,), coalesce=True) is True
    assert wakes.wake("assign", (7,), coalesce=True) is False
    assert sent() == 1
    assert wakes.wake("assign", (8,), coalesce=True) is True  # another pool is another matter
    assert sent() == 2
    wakes.awake("assign", (7,))
    assert wakes.wake("assign", (7,), coalesce=True) is True
    assert sent() == 3


def test_a_flag_lives_no_longer_than_a_sweep(broker: "redis.Redis") -> None:
    wakes.wake("assign", (7,), coalesce=True)
    (flag,) = broker.scan_iter("berth:awake:*")
    assert 0 < broker.pttl(flag) <= django_settings.SWEEP_SECONDS * 1_000


def test_what_is_due_much_later_is_left_to_the_sweep(broker: "redis.Redis") -> None:
    later = timezone.now() + timedelta(seconds=wakes.LONGEST_COUNTDOWN_SECONDS + 5)
    assert wakes.wake("assign", (9,), due=later) is False
    assert broker.llen("assign") == 0
