"""Publishing to RabbitMQ is bounded too: also when it greets and then says nothing, or stops in the middle of a word."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from amqp.serialization import dumps

from jobs import publisher

MOST_SECONDS = 2.0  # it would be for ever
START, TUNE, OPEN_OK = (10, 10), (10, 30), (10, 41)


class PoliteAndDeaf:
    """Greets as RabbitMQ does; to what is asked on a channel it says `last_words`, and then nothing for ever."""

    def __init__(self, last_words: bytes) -> None:
        self.last_words = last_words
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://guest:guest@127.0.0.1:{self.listener.getsockname()[1]}//"
        self.greeted = 0
        self.ends: list[socket.socket] = []
        threading.Thread(target=self._greet_all, daemon=True).start()

    def close(self) -> None:
        for end in (self.listener, *self.ends):
            end.close()

    def _greet_all(self) -> None:
        while True:
            try:
                end, _ = self.listener.accept()
                self.ends.append(end)
                self._greet(end)
            except OSError:
                return

    def _greet(self, end: socket.socket) -> None:
        end.recv(8)  # the protocol's name
        _send(end, START, "ooFSS", [0, 9, {}, "AMQPLAIN PLAIN", "en_US"])
        end.recv(4096)
        _send(end, TUNE, "BlB", [2047, 131072, 0])
        for _ in "12":  # tune-ok and open may come together or one after the other
            if b"\x00\x0a\x00\x28" in end.recv(4096):
                break
        _send(end, OPEN_OK, "s", [""])
        self.greeted += 1
        end.recv(4096)
        end.sendall(self.last_words)


def _send(end: socket.socket, method: tuple[int, int], shape: str, values: list[Any]) -> None:
    payload = struct.pack(">HH", *method) + dumps(shape, values)
    end.sendall(struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce")


HALF_AN_ANSWER = struct.pack(">BHI", 1, 1, 20) + b"\x00"


@pytest.fixture(params=[b"", HALF_AN_ANSWER], ids=["nothing", "half an answer"])
def rabbit(request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[PoliteAndDeaf]:
    monkeypatch.setattr(publisher, "HANDSHAKE_SECONDS", MOST_SECONDS)
    before = settings.BROKER_URL
    server = PoliteAndDeaf(request.param)
    settings.BROKER_URL = server.url
    publisher.forget()
    yield server
    settings.BROKER_URL = before
    publisher.forget()
    server.close()


def test_a_rabbitmq_that_greets_and_then_falls_silent_holds_nobody_up(rabbit: PoliteAndDeaf) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match="timed out"):
        publisher.publish("jobs.finish", [["x"]], 0)
    assert time.monotonic() - began < MOST_SECONDS
    assert rabbit.greeted >= 1


def test_the_breakers_question_takes_an_answer_on_a_channel(rabbit: PoliteAndDeaf) -> None:
    with pytest.raises(Exception, match="timed out"):
        publisher._ask()
