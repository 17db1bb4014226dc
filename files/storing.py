"""A file arrives: first its row, then its bytes, then the word that it is there. Bytes are never whole in memory."""

import hashlib
import logging
from typing import Any, Final, Protocol
from uuid import UUID

import uuid_utils.compat
from django.core.files.base import File as Content
from django.core.files.storage import default_storage
from django.db import transaction

from files import queries
from files.errors import FileCut, FileTooLarge, TenantFull
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

ARRIVAL_SECONDS: Final = 3_600.0  # an arrival that takes longer has died
CHUNK_BYTES: Final = 262_144
logger = logging.getLogger(__name__)


class Readable(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes: ...


def put(
    tenant_id: int,
    source: Readable,
    *,
    kind: str,
    size: int,
    name: str,
    content_type: str,
    keep_seconds: float,
    most_bytes: int | None = None,
    job_id: UUID | None = None,
) -> Row:
    """Stores `size` bytes of `source` and keeps them at least `keep_seconds`; the row (id, size, sha256, …).

    Three steps: the row and the count are committed, the bytes are written outside of any transaction, the row is
    completed. Whatever fails between is given up: by us, else, after a crash, by `leaving.expire`. `most_bytes`: of all the
    tenant's files of this kind. `job_id`: who refers to it from the start. Raises TenantFull, FileCut.
    """
    file_id, place = begin(tenant_id, kind, size, most_bytes, name=name, content_type=content_type)
    crashpoint("file.counted")
    try:
        sha256 = _write(place, source, size)
        crashpoint("file.written")
        return complete(file_id, size, sha256, keep_seconds, job_id)
    except BaseException:
        give_up(file_id, place)
        raise


def begin(
    tenant_id: int, kind: str, size: int, most_bytes: int | None = None, *, name: str, content_type: str
) -> tuple[UUID, str]:
    """The row of a file that arrives, counted as announced; its id and place.

    Locks the tenant's counts: of two arrivals the second counts the first. Raises TenantFull.
    """
    file_id = UUID(str(uuid_utils.compat.uuid7()))
    place = f"{file_id.hex[-2:]}/{file_id}"  # the tail is random: folders of even size
    with transaction.atomic():
        used = queries.lock_usage(tenant_id)[f"{kind}_bytes"]
        if most_bytes is not None and used + size > most_bytes:
            raise TenantFull(most_bytes, used, size)
        queries.count(tenant_id, kind, size)
        row = {"id": file_id, "tenant_id": tenant_id, "kind": kind, "size": size, "place": place}
        queries.insert({**row, "name": name, "content_type": content_type}, ARRIVAL_SECONDS)
    return file_id, place


def check(tenant_id: int, kind: str, size: int, most_bytes: int) -> None:
    """Before anything of it is read. Raises TenantFull; `begin` decides all the same."""
    used = queries.used(tenant_id, kind)
    if used + size > most_bytes:
        raise TenantFull(most_bytes, used, size)


def left(tenant_id: int, kind: str, most_bytes: int) -> int:
    """How many bytes of this kind the tenant may still keep, as it stands now; nothing is locked or promised."""
    return max(most_bytes - queries.used(tenant_id, kind), 0)


def complete(file_id: UUID, size: int, sha256: str, keep_seconds: float, job_id: UUID | None) -> Row:
    """The file is there; its row. Locks the row: whoever gave it up before has won. Raises FileCut then."""
    with transaction.atomic():
        row = queries.stored(file_id, size, sha256, keep_seconds)
        crashpoint("file.completed")
        if row is None:
            raise FileCut(size, 0)
        if job_id is not None:
            queries.refer(job_id, [file_id])
    return row


def give_up(file_id: UUID, place: str) -> None:
    """What has arrived of it is deleted. What fails here is done by `leaving`."""
    from files import leaving

    try:
        queries.leave([file_id])
        crashpoint("file.left")
        leaving.delete([{"id": file_id, "place": place}])
    except Exception:  # the error that brought us here is the one to be told; the row says what is left to do
        logger.exception("file %s could not be given up; it is cleaned up later", file_id)


class Counted(Content):  # type: ignore[type-arg]
    """What a storage reads from: counts and digests, and stops at more than was announced."""

    def __init__(self, source: Readable, size: int) -> None:
        super().__init__(None)
        self.source, self.size = source, size
        self.came, self.digest = 0, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        wanted = CHUNK_BYTES if size < 0 else size
        chunk = self.source.read(min(wanted, CHUNK_BYTES)) if wanted else b""
        self.came += len(chunk)
        self.digest.update(chunk)
        if self.came > self.size:
            raise FileTooLarge(self.size)
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        """Storages rewind before they read."""
        if (offset, whence, self.came) != (0, 0, 0):
            raise OSError("what arrives is read once")
        return 0

    def chunks(self, chunk_size: int | None = None) -> Any:
        while chunk := self.read(chunk_size or CHUNK_BYTES):
            yield chunk


def _write(place: str, source: Readable, size: int) -> str:
    """The digest of what was written."""
    content = Counted(source, size)
    written = default_storage.save(place, content)
    if written != place:
        default_storage.delete(written)
        raise FileExistsError(f"the storage has something at {place} already")
    if content.came != size:
        raise FileCut(size, content.came)
    return content.digest.hexdigest()
