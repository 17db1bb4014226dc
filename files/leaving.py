"""A file leaves: first nobody may use it, then its bytes are deleted, then it is counted no more. Each step may be repeated."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final
from uuid import UUID

from django.core.files.storage import default_storage
from django.db import transaction

from files import queries
from files.errors import FileGone, FileInUse, NoSuchFile
from statemachine.crashpoints import crashpoint
from statemachine.sql import Row

LOOK_AGAIN_SECONDS: Final = 3_600.0  # at what a job still needed
REMEMBERED_DAYS: Final = 30  # that there was such a file: so long it is `gone`, then unknown
logger = logging.getLogger(__name__)

Unfinished = Callable[[Collection[UUID]], set[UUID]]  # of these jobs, those that have not ended


def expire(unfinished: Unfinished, limit: int) -> int:
    """Files whose time is over leave, unless a job that has not ended refers to them; how many were looked at.

    Locks the files, then asks for the references: whoever refers to one meanwhile waits and finds it leaving, or has been
    counted. A second caller skips what is locked.
    """
    with transaction.atomic():
        expired = queries.lock_expired(limit)
        if expired:
            references = queries.referring(expired)
            waiting = unfinished({reference["job_id"] for reference in references})
            needed = {reference["file_id"] for reference in references if reference["job_id"] in waiting}
            queries.prolong(sorted(needed), LOOK_AGAIN_SECONDS)
            crashpoint("clean.prolonged", expired)
            queries.leave([file_id for file_id in expired if file_id not in needed])
    return len(expired)


def delete_one(tenant_id: int, file_id: UUID, unfinished: Unfinished) -> None:
    """The tenant's file leaves now. Raises NoSuchFile, FileGone, FileInUse.

    Locks the file, then asks for the references, as `expire`; a second caller finds it leaving.
    """
    with transaction.atomic():
        found = queries.lock(tenant_id, file_id)
        if found is None:
            raise NoSuchFile
        if found["leaving_at"] is not None:
            raise FileGone(file_id)
        waiting = unfinished({reference["job_id"] for reference in queries.referring([file_id])})
        if waiting:
            raise FileInUse(min(waiting))
        queries.leave([file_id])


def remove(limit: int) -> int:
    """Deletes the bytes of files that leave; how many there were."""
    rows = queries.leaving(limit)
    delete(rows)
    return len(rows)


def forget(limit: int) -> int:
    """Deletes the rows of files that are long gone; how many.

    Their bytes once more: an arrival that was given up as dead, and was not, may have written some after they were deleted.
    """
    rows = queries.long_gone(REMEMBERED_DAYS, limit)
    gone = [row["id"] for row in rows if _delete_bytes(row)]
    crashpoint("clean.forgetting", gone)
    queries.forget(gone)
    return len(rows)


def delete(rows: Iterable[Row]) -> None:
    """Deletes the bytes of files that leave ({id, place}), and counts them no more.

    Locks the files in id order, then the tenants' counts; a second caller finds them gone.
    """
    deleted = [row["id"] for row in rows if _delete_bytes(row)]
    if not deleted:
        return
    crashpoint("clean.deleted")
    with transaction.atomic():
        freed = queries.gone(deleted)
        crashpoint("clean.gone", freed)
        for tenant_id in sorted({row["tenant_id"] for row in freed}):
            queries.lock_usage(tenant_id)
        for row in freed:
            queries.count(row["tenant_id"], row["kind"], -row["bytes"])


def _delete_bytes(row: Row) -> bool:
    """Also where there are none: it may have been done before."""
    try:
        default_storage.delete(row["place"])
    except Exception:  # whatever the storage says, the others go on; this one is tried again
        logger.exception("the bytes of file %s could not be deleted; tried again later", row["id"])
        queries.later(row["id"])
        return False
    return True
