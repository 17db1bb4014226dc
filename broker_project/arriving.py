"""The body of a request to web, read on the loop: small ones in memory, files on disk, and only from who has a key."""

import asyncio
import tempfile
from typing import IO, Any, Final, cast

from django.conf import settings
from django.db import Error, connection

from jobs import callbacks
from jobs.api.files import FORM_BYTES, ROUTE
from jobs.api.upstream import MOST_BYTES
from tenants import keys

MOST_READ: Final = 32 * 1024 * 1024  # bytes that are read and thrown away before a sender is cut off
Scope = dict[str, Any]
Body = IO[bytes]


async def body_of(scope: Scope, receive: Any) -> tuple[Body, int] | None:
    """The body and its bytes, up to one more than it may have (Django then refuses it); None when the sender went away.

    What is beyond is read and thrown away, up to a bound: a sender that is cut off while it sends never sees the refusal.
    """
    limit = await _room(scope)
    # Writing to a file of the machine's own is fast enough for the loop: it goes to memory that the kernel writes out.
    body = cast(Body, tempfile.SpooledTemporaryFile(max_size=_usual()))  # noqa: SIM115  closed by whoever reads it
    seen = 0
    while seen <= max(MOST_READ, limit):
        message = await receive()
        if message["type"] == "http.disconnect":
            body.close()
            return None
        chunk = message.get("body", b"")
        seen += len(chunk)
        body.write(chunk[: limit + 1 - body.tell()])
        if not message.get("more_body", False):
            break
    size = body.tell()
    body.seek(0)
    return body, size


async def _room(scope: Scope) -> int:
    """How many bytes the body may have. More than usual has a file alone, which somebody with a valid key sends."""
    if scope["method"] == "POST" and scope["path"].startswith(f"{callbacks.PATH}/"):
        return MOST_BYTES
    if scope["method"] != "POST" or scope["path"] != ROUTE:
        return _usual()
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    declared, most = headers.get(b"content-length", ""), settings.MAX_FILE_BYTES + FORM_BYTES
    if declared.isdigit() and not _usual() < int(declared[:20]) <= most:
        return _usual()
    key = headers.get(b"authorization", "").partition(" ")[2].strip()
    return most if await asyncio.to_thread(_opens, key) else _usual()


def _opens(key: str) -> bool:
    try:
        return keys.verify(key) is not None
    except Error:
        return False  # Django meets the same, and says it
    finally:
        connection.close()


def _usual() -> int:
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
