"""Reading a file: its row, and its bytes as they were stored, or the word that they are gone."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.core.files.storage import default_storage

from files import queries
from files.errors import FileGone, NoSuchFile
from files.storing import CHUNK_BYTES
from statemachine.sql import Row


def of_tenant(tenant_id: int, file_id: UUID) -> Row:
    """The tenant's file. Raises NoSuchFile, FileGone."""
    return _here(queries.of_tenant(tenant_id, file_id))


def by_id(file_id: UUID) -> Row:
    """The file, whoever's: for an address that proves by itself that it may be asked for. Raises NoSuchFile, FileGone."""
    return _here(queries.by_id(file_id))


def listed(tenant_id: int, kind: str | None, before: UUID | None, limit: int) -> list[Row]:
    """The tenant's files that may be used, newest first, those before the id `before`; of one kind, if any is given."""
    return queries.listed(tenant_id, kind, before, limit)


def usage(tenant_id: int) -> Row:
    """What its files take: input_bytes, result_bytes."""
    return queries.usage(tenant_id)


def open_bytes(row: Row) -> Any:
    """The bytes of this row, open; to be closed. Raises FileGone when they are not, or not all, there."""
    try:
        content = default_storage.open(row["place"])
    except FileNotFoundError as error:
        raise FileGone(row["id"]) from error
    if content.size != row["size"]:
        content.close()
        raise FileGone(row["id"])
    return content


class Chunks:
    """What is left of an open file, in pieces. It is closed also where nobody began to read, which no generator would do."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._content.read(CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        self._content.close()


def _here(row: Row | None) -> Row:
    if row is None:
        raise NoSuchFile
    if row["leaving_at"] is not None:
        raise FileGone(row["id"])
    return row
