"""What may keep a file from being stored or read, named as facts. Sizes are bytes."""

from uuid import UUID


class FilesError(Exception):
    """Anything of this app."""


class FileTooLarge(FilesError):
    """A file is larger than any may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a file may have at most {limit} bytes")
        self.limit = limit


class FileCut(FilesError):
    """Fewer or more bytes came than were announced."""

    def __init__(self, announced: int, came: int) -> None:
        super().__init__(f"{announced} bytes were announced, {came} came")


class TenantFull(FilesError):
    """The tenant's files would have more bytes than it may keep."""

    def __init__(self, limit: int, used: int, required: int) -> None:
        super().__init__(f"the files may have {limit} bytes together, {used} are used, {required} are required")
        self.limit, self.used, self.required = limit, used, required


class NoSuchFile(FilesError):
    """There is none of this id for this tenant, or it has not arrived."""


class FileGone(FilesError):
    """There was such a file; it has expired, was deleted, or its bytes are lost."""

    def __init__(self, file_id: UUID) -> None:
        super().__init__("the file has expired or was deleted")
        self.file_id = file_id


class FileInUse(FilesError):
    """A job that has not ended refers to the file."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"job {job_id} refers to the file and has not ended")
        self.job_id = job_id
