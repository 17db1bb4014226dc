import socket
from collections.abc import Iterator

import pytest

from tests.upstream.provider import Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    yield server
    server.stop()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Bound and not listened at: so it refuses, and nobody else can come to listen there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
