"""Taking a backup: pg_dump within one snapshot, whose facts the manifest tells."""

import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any, cast

import psycopg2

from broker_project.backup import archive, manifest, server
from broker_project.backup.errors import BackupFailed
from broker_project.backup.programs import NoProgram, find

LONGEST_ERROR = 2_000  # characters of what a program said


def take(path: Path, progress: archive.Progress) -> dict[str, Any]:
    """Writes a backup of the database to `path`, whole or not at all; its manifest. Raises BackupFailed, OSError.

    Locks nobody out; one snapshot stays open as long as it takes.
    """
    try:
        with server.connected(server.name()) as connection:
            program, made_by = find("pg_dump", server.major(connection))
            server.rows(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            server.rows(connection, "SET LOCAL idle_in_transaction_session_timeout = 0")
            server.rows(connection, "SET LOCAL statement_timeout = 0")
            told = manifest.facts(connection)
            snapshot = server.rows(connection, "SELECT pg_export_snapshot()")[0][0]
            with archive.written_whole(path) as file:
                size, digest = _dump(program, snapshot, file, progress)
                told |= {"bytes": size, "sha256": digest, "made_by": f"pg_dump {made_by}", "pg_dump": made_by}
                archive.close(file, told)
    except (psycopg2.Error, NoProgram) as error:
        raise BackupFailed(str(error).strip()) from error
    return told


def _dump(program: Path, snapshot: str, file: IO[bytes], progress: archive.Progress) -> tuple[int, str]:
    command = [str(program), "--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    environment = server.environment(server.name())
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=environment) as dumping,
    ):
        try:
            written = archive.write(file, cast(IO[bytes], dumping.stdout), progress)
        except BaseException:
            dumping.kill()
            raise
        if dumping.wait() != 0:
            said.seek(0)
            raise BackupFailed(f"pg_dump failed: {said.read().decode(errors='replace')[-LONGEST_ERROR:].strip()}")
    return written
