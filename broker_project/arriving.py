"""The body of a request to web, read on the loop: small ones in memory, files on disk, and only from who has a key.

What waits on disk is bounded in bytes for all senders of the process, in bytes of its tenant's quota, and in time.
"""

import asyncio
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import IO, Any, Final

from django.conf import settings
from django.db import Error, connection

from files import storing
from files.models import File
from jobs import callbacks
from jobs.api.files import FORM_BYTES, ROUTE, most_bytes
from jobs.api.upstream import MOST_BYTES
from tenants import keys

MOST_READ: Final = 32 * 1024 * 1024  # bytes that are read and thrown away before a sender is cut off
MOST_WAITING_BYTES: Final = 2_000_000_000  # of all bodies on disk; at least one file fits whatever MAX_FILE_BYTES says
LONGEST_SECONDS: Final = 900.0  # from the first byte of a body to its last
LONGEST_SILENCE_SECONDS: Final = 60.0
Scope = dict[str, Any]
Body = IO[bytes]
_waiting = 0  # bytes that were promised to bodies that are not closed yet
_counting = threading.Lock()


class TooSlow(Exception):
    """The body did not come in time."""


class NoRoom(Exception):
    """So many files arrive that this one has to come later."""


@dataclass(frozen=True, slots=True)
class _Room:
    """The bytes a body may have, and those that are set aside for it on disk; 0: it waits in memory."""

    limit: int
    on_disk: int = 0


async def body_of(scope: Scope, receive: Any) -> tuple[Body, int] | None:
    """The body and its bytes, up to one more than it may have (Django then refuses it); None when the sender went away.

    What is beyond is read and thrown away, up to a bound: a sender that is cut off while it sends never sees the refusal.
    Raises TooSlow, NoRoom.
    """
    room = await _room(scope)
    fits = _set_aside(room.on_disk)
    # Writing to a file of the machine's own is fast enough for the loop: it goes to memory that the kernel writes out.
    body = _Waiting(room.on_disk if fits else 0)
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            whole = await _read(body, room.limit if fits else 0, receive)
    except TimeoutError:
        body.close()
        raise TooSlow from None
    except BaseException:
        body.close()
        raise
    if not whole or not fits:
        body.close()
        if whole:
            raise NoRoom
        return None
    size = body.tell()
    body.seek(0)
    return body, size


class _Waiting(tempfile.SpooledTemporaryFile[bytes]):
    """Gives its room on disk back as it is closed, or when nobody knows it any more."""

    def __init__(self, on_disk: int) -> None:
        super().__init__(max_size=_usual())
        self._let_go = weakref.finalize(self, _let_go, on_disk)

    def close(self) -> None:
        super().close()
        self._let_go()


async def _read(body: Body, limit: int, receive: Any) -> bool:
    """False: the sender went away. Raises TimeoutError."""
    seen = 0
    while seen <= max(MOST_READ, limit):
        async with asyncio.timeout(LONGEST_SILENCE_SECONDS):
            message = await receive()
        if message["type"] == "http.disconnect":
            return False
        chunk = message.get("body", b"")
        seen += len(chunk)
        body.write(chunk[: limit + 1 - body.tell()])
        if not message.get("more_body", False):
            break
    return True


def _set_aside(size: int) -> bool:
    """Whether there is room for so many bytes on disk, which then is kept until they are let go."""
    global _waiting  # noqa: PLW0603  one disk per process
    with _counting:
        if size and _waiting and _waiting + size > MOST_WAITING_BYTES:
            return False
        _waiting += size
    return True


def _let_go(size: int) -> None:
    global _waiting  # noqa: PLW0603
    with _counting:
        _waiting -= size


async def _room(scope: Scope) -> _Room:
    """More than usual has what an upstream says of an attempt it has the address of, and a file, which somebody with a valid
    key sends, whose tenant may keep it.
    """
    usual = _Room(_usual())
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    told = headers.get(b"content-length", "")
    declared = int(told[:20]) if told.isdigit() else None
    if scope["method"] == "POST" and scope["path"].startswith(f"{callbacks.PATH}/"):
        size = MOST_BYTES if declared is None else min(declared, MOST_BYTES)
        more = size > usual.limit and await asyncio.to_thread(_is_addressed, scope["path"])
        return _Room(MOST_BYTES, size) if more else usual
    if scope["method"] != "POST" or scope["path"] != ROUTE:
        return usual
    most = settings.MAX_FILE_BYTES + FORM_BYTES
    if declared is not None and not usual.limit < declared <= most:
        return usual
    key = headers.get(b"authorization", "").partition(" ")[2].strip()
    left = await asyncio.to_thread(_left, key) + FORM_BYTES
    if declared is not None:
        return _Room(most, declared) if declared <= left else usual
    limit = max(min(most, left), usual.limit)
    return _Room(limit, limit)


def _is_addressed(path: str) -> bool:
    """Whether the path is the address of an attempt, be it one that a restore lost."""
    attempt, _, token = path.removeprefix(f"{callbacks.PATH}/").partition("/")
    try:
        return callbacks.addressed(attempt, token) is not None
    except callbacks.AttemptLost:
        return True
    except Error:
        return False
    finally:
        connection.close()


def _left(key: str) -> int:
    """How many bytes of files the tenant of this key may still keep."""
    try:
        found = keys.verify(key)
        return (
            -FORM_BYTES if found is None else storing.left(found.tenant_id, File.Kind.INPUT, most_bytes(found.tenant))
        )
    except Error:
        return -FORM_BYTES  # Django meets the same, and says it
    finally:
        connection.close()


def _usual() -> int:
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
