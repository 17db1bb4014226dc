"""Putting a backup back: into a database beside the one in use, which gets its name only when all is done.

What dies half-way has touched nothing that a process of Berth would connect to: the new database is called NAME_restoring,
is marked as restored (its pools closed) under that name, and takes the place of the other in one transaction of two
renames.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, cast

import psycopg2
from django.conf import settings
from psycopg2 import sql

from broker_project.backup import archive, manifest, server
from broker_project.backup.errors import RestoreRefused
from broker_project.backup.programs import NoProgram, find
from broker_project.backup.taking import LONGEST_ERROR

LONGEST_NAME: Final = 63  # of a database, in bytes
BEFORE: Final = "_before_"
MOST_NAMED: Final = 8
_OTHERS: Final = """
SELECT DISTINCT COALESCE(NULLIF(application_name, ''), usename) || ' from ' || COALESCE(host(client_addr), 'here')
FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY 1"""


@dataclass(frozen=True)
class Plan:
    """A backup that was looked at, and the database that it goes to."""

    path: Path
    manifest: Mapping[str, Any]
    program: Path

    @property
    def target(self) -> str:
        return server.name()

    @property
    def beside(self) -> str:
        return named(self.target, "_restoring")


def named(database: str, ending: str) -> str:
    """A name of our own beside that of a database. The server would cut a longer one at its end, where it differs."""
    kept = database.encode()[: LONGEST_NAME - len(ending.encode())]
    return kept.decode(errors="ignore") + ending


def examine(path: Path, told: Mapping[str, Any], *, without_keys: bool) -> Plan:
    """Refuses what cannot be put back here by what its manifest told. The dump itself is checked by `archive.check`.

    Raises RestoreRefused.
    """
    if newer := manifest.unknown(told["migrations"]):
        raise RestoreRefused(
            f"the backup was made by Berth {told['version']}, which is newer than this one ({manifest.version()}):"
            f" it has {', '.join(newer[:3])}; install that version first"
        )
    if not without_keys and (missing := manifest.missing_keys(told)):
        raise RestoreRefused(
            f"this installation does not have {', '.join(missing)} of the one that was backed up: credentials and API keys"
            " could not be read. Set them as they were, from where they are kept apart: as variables, or with `manage.py up` as"
            f" field_keys, key_peppers and secret_key of {settings.HOME / 'secrets.json'}; or add --without-keys"
        )
    try:
        with server.maintaining() as connection:
            if server.major(connection) < told["postgres"]:
                raise RestoreRefused(
                    f"the backup is of PostgreSQL {told['postgres']}, the server is {server.major(connection)}: it is older"
                )
            program, _ = find("pg_restore", max(told["pg_dump"], told["postgres"]))
    except (psycopg2.Error, NoProgram) as error:
        raise RestoreRefused(str(error).strip()) from error
    return Plan(path, told, program)


def needed(plan: Plan, *, replace: bool) -> list[str]:
    """What has to be done or said before the backup may take the place of its target, a sentence each; empty: nothing.

    Raises RestoreRefused when the server does not answer.
    """
    try:
        with server.maintaining() as connection:
            if not _exists(connection, plan.target):
                return []
            connected = _connected(connection, plan.target)
        with server.connected(plan.target) as inside:
            there = server.rows(inside, "SELECT to_regclass('jobs_job') IS NOT NULL")[0][0]
            has_jobs = there and server.rows(inside, "SELECT EXISTS (SELECT FROM jobs_job)")[0][0]
    except psycopg2.Error as error:
        raise RestoreRefused(str(error).strip()) from error
    words = [connected] if connected else []
    if has_jobs and not replace:
        words.append(f"there are jobs in {plan.target}: --replace puts the backup in its place and keeps it beside")
    return words


def put_back(plan: Plan, progress: archive.Progress, arguments: list[str]) -> str:
    """Fills the database beside, brings its schema up to date, closes its pools, then swaps; the name of the earlier one.

    `arguments` are for `manage.py restored`. Raises RestoreRefused; then the database in use is as it was.
    """
    try:
        with server.maintaining() as connection:
            _check_nobody_is_connected(connection, plan.beside)
            server.rows(connection, sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(plan.beside)))
            server.rows(connection, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(plan.beside)))
        _fill(plan, progress)
        with server.connected(plan.beside) as connection:
            server.rows(connection, "ANALYZE")
        _manage(plan, "prepare", "--only-schema")
        _manage(plan, "restored", *arguments)
        with server.maintaining() as connection:
            return _swap(connection, plan)
    except psycopg2.Error as error:
        raise RestoreRefused(f"{plan.target} is as it was: {str(error).strip()}") from error


def drop_earlier(name: str) -> None:
    """Drops a database that a restore kept beside. Raises RestoreRefused for any other, and for one that is in use."""
    try:
        with server.maintaining() as connection:
            there = [row[0] for row in server.rows(connection, "SELECT datname FROM pg_database ORDER BY datname")]
            kept = [database for database in there if _is_earlier(database)]
            if name not in kept:
                raise RestoreRefused(
                    f"no restore kept a database {name!r} beside; kept are: {', '.join(kept) or 'none'}"
                )
            _check_nobody_is_connected(connection, name)
            server.rows(connection, sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    except psycopg2.Error as error:
        raise RestoreRefused(str(error).strip()) from error


def _check_nobody_is_connected(connection: Any, database: str) -> None:
    if connected := _connected(connection, database):
        raise RestoreRefused(connected)


def _connected(connection: Any, database: str) -> str:
    """Who is connected to it, one entry per process, and what to do about that; empty when nobody is."""
    others = [row[0] for row in server.rows(connection, _OTHERS, [database])]
    if not others:
        return ""
    more = f", and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return (
        f"somebody is connected to {database}: {', '.join(others[:MOST_NAMED])}{more}. Stop every process of Berth first;"
        " with `manage.py up`, stop that and start its database alone: `manage.py up --only postgres`"
        " (docs/deployment.md: Restore with `manage.py up`)"
    )


def _is_earlier(database: str) -> bool:
    """Whether it has the name that `_swap` gives."""
    ending = re.search(rf"{BEFORE}\d{{8}}_\d{{6}}$", database)
    return ending is not None and database == named(server.name(), ending[0])


def _exists(connection: Any, database: str) -> bool:
    return bool(server.rows(connection, "SELECT 1 FROM pg_database WHERE datname = %s", [database]))


def _fill(plan: Plan, progress: archive.Progress) -> None:
    command = [str(plan.program), "--no-owner", "--no-privileges", "--exit-on-error", f"--dbname={plan.beside}"]
    done = 0
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, env=server.environment(plan.beside)) as restoring,
    ):
        try:
            into = cast(IO[bytes], restoring.stdin)
            for chunk in archive.chunks(plan.path):
                into.write(chunk)
                done += len(chunk)
                progress(done)
            into.close()
        except BrokenPipeError:
            pass  # it has ended, and says why
        except BaseException:
            restoring.kill()
            raise
        if restoring.wait() != 0:
            said.seek(0)
            why = said.read().decode(errors="replace")[-LONGEST_ERROR:].strip()
            raise RestoreRefused(f"{plan.target} is as it was: pg_restore failed: {why}")


def _manage(plan: Plan, *arguments: str) -> None:
    """A command of ours against the new database, in a process of its own: settings are read once."""
    environment = {**os.environ, "DATABASE_URL": server.url_of(plan.beside)}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr or done.stdout)[-LONGEST_ERROR:].strip()
        raise RestoreRefused(f"{plan.target} is as it was: `manage.py {arguments[0]}` failed: {why}")


def _swap(connection: Any, plan: Plan) -> str:
    """Both renames or none. Raises RestoreRefused when somebody has connected meanwhile."""
    earlier = named(plan.target, f"{BEFORE}{datetime.now(UTC):%Y%m%d_%H%M%S}")
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    _check_nobody_is_connected(connection, plan.target)
    there = _exists(connection, plan.target)
    server.rows(connection, "BEGIN")
    if there:
        server.rows(connection, rename.format(sql.Identifier(plan.target), sql.Identifier(earlier)))
    server.rows(connection, rename.format(sql.Identifier(plan.beside), sql.Identifier(plan.target)))
    server.rows(connection, "COMMIT")
    return earlier if there else ""
