"""The file of a backup: whole or not there, and whoever changed a byte of it is found out."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from broker_project.backup import archive
from broker_project.backup.errors import BackupFailed, RestoreRefused
from broker_project.backup.telling import progress, size_text

CONTENT = b"dump" * 5_000


def quiet(_done: int) -> None:
    pass


def said(*arguments: str, **options: Any) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


def made(path: Path, content: bytes = CONTENT) -> Path:
    with archive.written_whole(path) as file:
        size, digest = archive.write(file, io.BytesIO(content), quiet)
        archive.close(file, {"bytes": size, "sha256": digest})
    return path


@pytest.mark.parametrize("content", [b"", b"x", b"y" * 512, CONTENT])
def test_what_was_written_is_read(tmp_path: Path, content: bytes) -> None:
    path = made(tmp_path / "b", content)
    manifest = archive.read_manifest(path)
    archive.check(path, manifest, quiet)
    assert (b"".join(archive.chunks(path)), manifest["bytes"]) == (content, len(content))
    with tarfile.open(path) as tar:
        assert tar.getnames() == [archive.DUMP, archive.MANIFEST]


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def full(_done: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), archive.written_whole(tmp_path / "b") as file:
        archive.write(file, io.BytesIO(CONTENT), full)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = made(tmp_path / "b")
    before = path.read_bytes()
    with pytest.raises(BackupFailed, match="there already"):
        made(path, b"other")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_where_no_file_can_be_made_the_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match=f"no file can be made in {tmp_path}/gone: No such file"):
        made(tmp_path / "gone" / "b")


@pytest.mark.parametrize("cut", [100, 700, 3_000, len(CONTENT) + 600])
def test_a_file_that_was_cut_off_is_no_backup(tmp_path: Path, cut: int) -> None:
    path = made(tmp_path / "b")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RestoreRefused, match="no backup"):
        archive.read_manifest(path)


def test_a_byte_that_was_changed_is_found(tmp_path: Path) -> None:
    path = made(tmp_path / "b")
    content = bytearray(path.read_bytes())
    content[9_000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(RestoreRefused, match="damaged"):
        archive.check(path, archive.read_manifest(path), quiet)


@pytest.mark.parametrize("content", [b"", b"PGDMP and so on", b"\0" * 10_240])
def test_another_file_is_no_backup(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b"
    path.write_bytes(content)
    with pytest.raises(RestoreRefused):
        archive.read_manifest(path)


def test_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_project.backup.telling.EVERY_SECONDS", 0.0)
    said: list[str] = []
    progress(said.append, "written", 2_000_000)(1_234_567)
    assert said == ["written: 1.2 MB of 2.0 MB"]
    assert [size_text(size) for size in (999, 1_000, 3_500_000_000_000, 10**16)] == [
        "999 bytes",
        "1.0 kB",
        "3.5 TB",
        "10000.0 TB",
    ]
