"""A proxy fails as it is told to, in the direction it is told to, and works again when it is healed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.lines import Proxies, Proxy
from tests.chaos.proxy import HOST

PATIENCE_SECONDS = 0.3


@pytest.fixture(scope="module")
def proxies() -> Iterator[Proxies]:
    made = Proxies()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def heard() -> list[bytes]:
    return []


@pytest.fixture(scope="module")
def echo(proxies: Proxies, heard: list[bytes]) -> Iterator[Proxy]:
    """A proxy before a server that says everything back."""
    listening = socket.create_server((HOST, 0))

    def say_back(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while said := connection.recv(65536):
                heard.append(said)
                connection.sendall(said)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=say_back, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield proxies.between("echo", f"tcp://{HOST}:{listening.getsockname()[1]}")
    listening.close()


@pytest.fixture
def line(echo: Proxy, heard: list[bytes]) -> Iterator[socket.socket]:
    heard.clear()
    connection = connect(echo)
    assert ask(connection, b"hello") == b"hello"
    yield connection
    connection.close()
    echo.heal()


def connect(proxy: Proxy) -> socket.socket:
    connection = socket.create_connection((HOST, int(proxy.url.rpartition(":")[2])), timeout=2)
    connection.settimeout(PATIENCE_SECONDS)
    return connection


def ask_anew(proxy: Proxy, said: bytes) -> bytes | None:
    with connect(proxy) as connection:
        return ask(connection, said)


def ask(connection: socket.socket, said: bytes) -> bytes | None:
    """All that comes back for it within a moment; None when the line has ended with a reset."""
    answer = b""
    try:
        connection.sendall(said)
        while len(answer) < len(said) and (piece := connection.recv(65536)):
            answer += piece
    except TimeoutError:
        pass
    except OSError:
        return None
    return answer


def test_a_cut_line_ends_and_takes_nobody_until_it_is_healed(echo: Proxy, line: socket.socket) -> None:
    echo.fail("cut")
    assert ask(line, b"lost") in (b"", None)
    assert ask_anew(echo, b"refused") in (b"", None)
    echo.heal()
    assert ask_anew(echo, b"again") == b"again"


def test_a_reset_is_no_polite_end(echo: Proxy, line: socket.socket) -> None:
    echo.fail("reset")
    with pytest.raises(ConnectionResetError):
        line.recv(1)
    echo.heal()
    assert ask_anew(echo, b"again") == b"again"


def test_a_slow_line_is_slow_in_its_direction(echo: Proxy, line: socket.socket) -> None:
    began = time.monotonic()
    with echo.failing("delay", "there", seconds=0.1):
        assert ask(line, b"slow") == b"slow"
    assert 0.1 <= time.monotonic() - began < 0.3
    assert ask(line, b"fast") == b"fast"


def test_a_hole_swallows_one_direction_or_both_and_ends_in_a_reset(
    echo: Proxy, line: socket.socket, heard: list[bytes]
) -> None:
    with echo.failing("hole", "back"):
        assert ask(line, b"heard") == b""
        assert heard[-1] == b"heard"
    assert ask(line, b"over") is None
    with echo.failing("hole"):
        assert ask_anew(echo, b"unheard") == b""
    assert heard[-1] == b"heard"


def test_a_stalled_line_gives_everything_when_it_is_healed(echo: Proxy, line: socket.socket) -> None:
    with echo.failing("stall"):
        assert ask(line, b"late") == b""
    assert line.recv(65536) == b"late"


def test_a_dripping_line_gives_a_little_at_a_time(echo: Proxy, line: socket.socket) -> None:
    with echo.failing("drip", "back", bytes=2, seconds=0.05):
        began = time.monotonic()
        assert ask(line, b"12345678") == b"12345678"
        assert time.monotonic() - began > 0.1


def test_a_line_ends_after_so_many_bytes_of_the_answer(echo: Proxy, line: socket.socket, heard: list[bytes]) -> None:
    with echo.failing("after", "back", bytes=3):
        assert ask(line, b"123") == b"123"
        assert ask(line, b"456") in (b"", None)
        assert heard[-1] == b"456"  # taken, and the answer was lost
        assert ask_anew(echo, b"7890") in (b"789", None)
