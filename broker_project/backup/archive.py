"""The file of a backup: a tar of the dump and, last, a manifest. Without its manifest it is no backup."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from broker_project.backup.errors import BackupFailed, RestoreRefused

DUMP: Final = "database.dump"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
CHUNK: Final = 1024 * 1024
Progress = Callable[[int], None]  # bytes so far


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name only when all of it is on the disk; what fails inside leaves nothing of it.

    Raises BackupFailed when the name is taken, or nothing can be made in its folder.
    """
    half = path.with_name(f".{path.name}.{os.getpid()}.part")
    if path.exists():
        raise BackupFailed(f"{path} is there already; nothing was written")
    try:
        descriptor = os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BackupFailed(f"no file can be made in {path.parent.absolute()}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write(file: IO[bytes], dump: IO[bytes], progress: Progress) -> tuple[int, str]:
    """Copies the dump to its place in the file; (bytes, sha256). Its header is written when the size is known."""
    file.write(b"\0" * tarfile.BLOCKSIZE)
    digest, size = hashlib.sha256(), 0
    while chunk := dump.read(CHUNK):
        file.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        progress(size)
    file.write(b"\0" * (-size % tarfile.BLOCKSIZE))
    end = file.tell()
    file.seek(0)
    file.write(_header(DUMP, size))
    file.seek(end)
    return size, digest.hexdigest()


def close(file: IO[bytes], manifest: Mapping[str, Any]) -> None:
    """Writes the manifest: from now on the file is a whole backup."""
    content = json.dumps({"berth_backup": FORMAT, **manifest}, indent=1, sort_keys=True).encode()
    file.write(_header(MANIFEST, len(content)) + content + b"\0" * (-len(content) % tarfile.BLOCKSIZE))
    file.write(b"\0" * 2 * tarfile.BLOCKSIZE)


def read_manifest(path: Path) -> dict[str, Any]:
    """What the backup says of itself. Raises RestoreRefused when it is none, or not whole."""
    try:
        with tarfile.open(path, "r:") as tar:
            member = tar.extractfile(MANIFEST)
            manifest = json.loads(member.read()) if member else {}
            tar.getmember(DUMP)
    except (tarfile.TarError, KeyError, ValueError, EOFError) as error:
        raise RestoreRefused(f"{path} is no backup that `manage.py backup` finished: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("berth_backup") != FORMAT:
        raise RestoreRefused(f"{path} was made by another version of `manage.py backup`, or is none")
    return manifest


def check(path: Path, manifest: Mapping[str, Any], progress: Progress) -> None:
    """Reads all of the dump. Raises RestoreRefused unless it is the one that the manifest speaks of."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks(path):
        digest.update(chunk)
        size += len(chunk)
        progress(size)
    if (size, digest.hexdigest()) != (manifest["bytes"], manifest["sha256"]):
        raise RestoreRefused(f"{path} is damaged: its dump is not the one that its manifest speaks of")


def chunks(path: Path) -> Iterator[bytes]:
    """The dump, piece by piece."""
    with tarfile.open(path, "r:") as tar:
        dump = tar.extractfile(DUMP) or io.BytesIO()
        while chunk := dump.read(CHUNK):
            yield chunk


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry.tobuf(tarfile.GNU_FORMAT)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
