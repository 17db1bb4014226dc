"""Who waits is woken by Redis, also after a Redis that had gone silent without closing anything."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import redis
from django.conf import settings as django_settings

from broker_project import waiting
from broker_project.waiting import Waiting
from jobs.redis_hints import CHANNEL, announce


class Between:
    """A wire to a server: connections made before it is cut stay open and carry nothing any more."""

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        self.connections = 0
        self.asked = 0  # how often it was asked whether it is there
        self.ends: list[socket.socket] = []
        self.whole = 0  # connections from this number on are whole
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.whole = self.connections

    def close(self) -> None:
        self.listener.close()
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self.ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(self.connections, source, sink), daemon=True).start()
            self.connections += 1

    def _carry(self, number: int, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.asked += data.count(b"PING")
                if number >= self.whole:
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """Between live and its Redis."""
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 1000.0)
    parts = urlsplit(settings.REDIS_URL)
    between = Between(str(parts.hostname), parts.port or 6379)
    settings.REDIS_URL = parts._replace(netloc=f":{parts.password}@127.0.0.1:{between.port}").geturl()
    yield between
    between.close()


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


def test_a_redis_that_has_gone_silent_is_asked_and_left_for_a_new_connection(wire: Between) -> None:
    job_id = uuid4()

    async def story() -> float:
        with redis.Redis.from_url(real) as client:
            hearers = lambda: {each["id"] for each in client.client_list() if each["sub"] != "0"}  # noqa: E731
            before = hearers()
            live = Waiting()
            live.start()
            await until(lambda: len(hearers() - before) == 1)
            gone_silent = hearers()
            wire.cut()
            await until(lambda: bool(hearers() - gone_silent))
            with live.for_job(str(job_id)) as wait:
                client.publish(CHANNEL, f'["{job_id}"]')
                began = time.monotonic()
                await wait.moved(0, 5)
            await live.stop()
            return time.monotonic() - began

    real = django_settings.REDIS_URL.replace(f":{wire.port}", f":{wire.target[1]}")
    assert asyncio.run(asyncio.wait_for(story(), 30)) < 2


def test_a_redis_that_is_quiet_and_answers_is_kept(wire: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        live = Waiting()
        live.start()
        await until(lambda: wire.asked >= 2)
        await live.stop()

    monkeypatch.setattr(waiting, "QUIET_SECONDS", 1.0)  # an answer has so long; the machine may be slow
    asyncio.run(story())
    assert wire.connections == 1


def test_those_who_wait_for_another_job_are_left_alone(wire: Between) -> None:
    async def story() -> bool:
        live = Waiting()
        live.start()
        await until(lambda: wire.connections == 1)
        await asyncio.sleep(0.3)
        with live.for_job(str(uuid4())) as wait:
            await asyncio.to_thread(announce, [{"id": uuid4()}])
            began = time.monotonic()
            await wait.moved(0, 0.5)
            await live.stop()
        return time.monotonic() - began >= 0.5

    assert asyncio.run(asyncio.wait_for(story(), 30))
