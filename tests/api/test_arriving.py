"""Bodies on their way to web are bounded: in bytes on disk for all, in what their tenant may keep, in time."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_project import arriving
from broker_project.arriving import NoRoom, TooSlow, body_of
from jobs import callbacks
from jobs.api.files import FORM_BYTES
from jobs.api.upstream import MOST_BYTES
from tests import factories
from tests.api.conftest import Caller, assert_problem

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = 3_000_000
PIECE = b"x" * 500_000


@pytest.fixture(autouse=True)
def _all_room_is_given_back() -> Iterator[None]:
    yield
    assert arriving._waiting == 0


def scope(caller: Caller, size: int | None = SIZE) -> dict[str, Any]:
    headers = [(b"authorization", f"Bearer {caller.key}".encode())]
    if size is not None:
        headers.append((b"content-length", str(size).encode()))
    return {"type": "http", "method": "POST", "path": "/v1/files", "headers": headers}


def sender(size: int = SIZE, before_each: Callable[[int], Any] = lambda _: None) -> Any:
    left = [size]

    async def receive() -> dict[str, Any]:
        if (wait := before_each(left[0])) is not None:
            await wait
        chunk = PIECE[: left[0]]
        left[0] -= len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": left[0] > 0}

    return receive


def test_a_file_beyond_what_all_may_have_on_disk_comes_later(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "MOST_WAITING_BYTES", SIZE + 1)

    async def two() -> None:
        first = await body_of(scope(caller), sender())
        assert first is not None
        assert arriving._waiting == SIZE
        with pytest.raises(NoRoom):
            await body_of(scope(caller), sender())
        small = await body_of(scope(caller, 10), sender(10))
        assert small is not None
        assert small[0].read() == b"x" * 10
        small[0].close()
        first[0].close()
        first[0].close()
        assert arriving._waiting == 0
        again = await body_of(scope(caller), sender())
        assert again is not None
        assert again[1] == SIZE
        again[0].close()

    asyncio.run(two())


def test_one_file_has_room_however_large_it_may_be(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "MOST_WAITING_BYTES", 1)
    arrived = asyncio.run(body_of(scope(caller, None), sender()))
    assert arrived is not None
    assert arrived[1] == SIZE
    arrived[0].close()


@pytest.mark.parametrize("bound", ["LONGEST_SECONDS", "LONGEST_SILENCE_SECONDS"])
def test_a_sender_that_is_too_slow_is_refused(caller: Caller, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(arriving, bound, 0.2)
    pause = 0.1 if bound == "LONGEST_SECONDS" else 5.0
    with pytest.raises(TooSlow):
        asyncio.run(body_of(scope(caller), sender(before_each=lambda _: asyncio.sleep(pause))))


def test_what_a_tenant_may_not_keep_does_not_reach_the_disk(caller_of: Callable[..., Caller]) -> None:
    caller = caller_of(max_file_bytes=2_000_000)
    for size in (SIZE, None):
        arrived = asyncio.run(body_of(scope(caller, size), sender()))
        assert arrived is not None
        assert arrived[1] <= 2_000_000 + FORM_BYTES + 1
        arrived[0].close()


@pytest.mark.parametrize("declared", [SIZE, None])
def test_news_of_an_attempt_may_be_larger_than_what_is_kept_in_memory(settings: Any, declared: int | None) -> None:
    settings.PUBLIC_URL = "https://berth.example"
    upstream = {"mode": "callback", "submit": {"path": "'/run'"}, "callback": {"success": "true"}}
    flight = factories.dispatch(factories.at("assigned", factories.make_job_type(upstream=upstream)))
    path = callbacks.address(flight).removeprefix(settings.PUBLIC_URL)
    length = [] if declared is None else [(b"content-length", str(declared).encode())]
    news = {"type": "http", "method": "POST", "path": path, "headers": length}
    arrived = asyncio.run(body_of(news, sender()))
    assert arrived is not None
    assert (arrived[1], arriving._waiting) == (SIZE, MOST_BYTES if declared is None else SIZE)
    arrived[0].close()
    small = asyncio.run(body_of({**news, "headers": [(b"content-length", b"10")]}, sender(10)))
    assert small is not None
    assert (small[1], arriving._waiting) == (10, 0), "it waits in memory"
    small[0].close()
    stranger = asyncio.run(body_of({**news, "path": path[:-1]}, sender()))
    assert stranger is not None
    assert (stranger[1], arriving._waiting) == (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1, 0)
    stranger[0].close()


def test_a_form_beyond_the_quota_is_refused_before_it_is_read(caller_of: Callable[..., Caller]) -> None:
    caller = caller_of(max_file_bytes=5)
    headers = {"content_type": "multipart/form-data; boundary=b", "CONTENT_LENGTH": str(SIZE)}
    response = caller.client.generic(
        "POST", "/v1/files", b"cut", headers={"Authorization": f"Bearer {caller.key}"}, **headers
    )
    assert_problem(response, 429, "quota-exceeded")
