"""Large files through the real web process: in and out in pieces, never whole in its memory."""

import hashlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import Caller
from tests.api.servers import HOST, WebAndLive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
LARGE = 90_000_000
PIECE = bytes(range(256)) * 4_096


@pytest.fixture
def client(servers: WebAndLive, caller: Caller) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {caller.key}"}
    with httpx.Client(base_url=servers.urls["web"], headers=headers, timeout=60) as made:
        yield made


def pieces(size: int) -> Iterator[bytes]:
    while size > 0:
        yield PIECE[:size]
        size -= len(PIECE)


def memory_kb(servers: WebAndLive, what: str) -> int:
    status = Path(f"/proc/{servers.processes['web'].pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what))


def test_a_large_file_goes_in_and_out_in_pieces(servers: WebAndLive, client: httpx.Client) -> None:
    assert client.post("/v1/files", content=b"small").status_code == 201
    before = memory_kb(servers, "VmRSS:")
    sent = client.post("/v1/files", content=pieces(LARGE), headers={"Content-Type": "video/mp4"})  # chunked
    assert (sent.status_code, sent.json()["size"]) == (201, LARGE)
    digest, most = hashlib.sha256(), 0
    with client.stream("GET", f"/v1/files/{sent.json()['id']}/content") as fetched:
        assert fetched.headers["Content-Length"] == str(LARGE)
        for chunk in fetched.iter_bytes():
            digest.update(chunk)
            most = max(most, memory_kb(servers, "VmRSS:"))
    assert digest.hexdigest() == sent.json()["sha256"]
    assert most - before < 30_000, f"from {before} to {most} kB"


def test_a_reader_that_goes_away_or_sleeps_holds_no_thread(servers: WebAndLive, client: httpx.Client) -> None:
    sent = client.post("/v1/files", content=pieces(20_000_000)).json()
    head = f"GET /v1/files/{sent['id']}/content HTTP/1.1\r\nHost: {HOST}\r\n"
    head += f"Authorization: {client.headers['Authorization']}\r\n\r\n"
    readers = []
    for _ in range(8):  # twice as many as web has threads
        wire = socket.create_connection((HOST, servers.ports["web"]), timeout=5)
        wire.sendall(head.encode())
        wire.recv(100)
        readers.append(wire)
    begun = time.monotonic()
    assert client.get(f"/v1/files/{sent['id']}").status_code == 200
    assert time.monotonic() - begun < 10, "it would be for ever"
    for wire in readers:
        wire.close()
    assert client.get(f"/v1/files/{sent['id']}").status_code == 200


def test_only_a_key_makes_room_for_a_file(servers: WebAndLive, client: httpx.Client) -> None:
    def answer(headers: dict[str, str], size: int = 3_000_000) -> Any:
        return httpx.post(f"{servers.urls['web']}/v1/files", content=pieces(size), headers=headers, timeout=60)

    key = client.headers["Authorization"]
    assert answer({"Authorization": key}).status_code == 201
    assert answer({}).json()["code"] == "unauthenticated"
    assert answer({"Authorization": key[:-1] + "x"}).json()["code"] == "unauthenticated"
    assert (
        answer({"Authorization": key, "Content-Length": "100000001"}, 100_000_001).json()["code"] == "payload-too-large"
    )
    assert answer({"Authorization": key}, 101_000_000).json()["code"] == "payload-too-large"
    other = httpx.post(f"{servers.urls['web']}/v1/jobs", content=pieces(3_000_000), headers={"Authorization": key})
    assert other.json()["code"] == "payload-too-large"


def test_a_head_has_no_body(client: httpx.Client) -> None:
    sent = client.post("/v1/files", content=b"x" * 70_000).json()
    answer = client.head(f"/v1/files/{sent['id']}/content")
    assert (answer.status_code, answer.headers["Content-Length"], answer.content) == (200, "70000", b"")
    assert client.get(f"/v1/files/{sent['id']}/content").content == b"x" * 70_000


def test_each_of_many_senders_is_stored(client: httpx.Client, caller_of: Callable[..., Caller]) -> None:
    for size in (1, 65_536, 1_048_576, 1_048_577):
        assert client.post("/v1/files", content=pieces(size)).json()["size"] == size
