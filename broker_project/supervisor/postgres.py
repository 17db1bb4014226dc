"""The embedded PostgreSQL: made on the first start, run as a child of ours, reached over 127.0.0.1 with a password."""

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg2
from psycopg2 import sql

from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.leftovers import clear
from broker_project.supervisor.ports import HOST
from broker_project.supervisor.postgres_place import find_place
from broker_project.supervisor.secrets import write_private
from broker_project.supervisor.spawn import Role, identity

USER = "postgres"
DATABASE = "berth"
MAX_CONNECTIONS = 200  # each process may hold its whole pool
CONNECT_SECONDS = 3


class EmbeddedPostgres:
    """One server in `home`. `durable=False` gives up safety in a power cut (not in kill -9) for speed: for tests."""

    def __init__(self, home: Path, port: int, password: str, *, durable: bool = True) -> None:
        self.place = find_place(home)
        self.secrets = home / "secrets.json"
        self.port = port
        self.password = password
        self.durable = durable

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgres://{USER}:{quote(self.password, safe='')}@{HOST}:{self.port}/{database}"

    def initialise(self) -> None:
        """Makes the data folder unless it stands. A making that was cut short is begun anew."""
        if self.place.data.exists():
            return
        half = self.place.folder / "half-made"
        shutil.rmtree(half, ignore_errors=True)
        word = self.place.folder / "password"
        write_private(word, self.password)
        if self.place.user:
            owner = pwd.getpwnam(self.place.user)
            os.chown(word, owner.pw_uid, owner.pw_gid)
        try:
            self._initdb(half, word)
        finally:
            word.unlink(missing_ok=True)
        half.rename(self.place.data)

    def role(self, log: Path) -> Role:
        unsafe = [] if self.durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        arguments = ["-D", str(self.place.data), "-h", HOST, "-p", str(self.port), "-k", ""]
        limits = ["-c", f"max_connections={MAX_CONNECTIONS}", "-c", "timezone=UTC", "-c", "log_timezone=UTC"]
        return Role(
            "postgres",
            self.place.command("postgres", *arguments, *limits, *unsafe),
            env=_bare_environment(),
            log=log,
            data=self.place.folder,
            user=self.place.user,
            stop_signal=signal.SIGINT,  # ends sessions and stops at once, cleanly
            last_signal=signal.SIGQUIT,  # stops without a checkpoint; the next start recovers
            orphan_signal=signal.SIGINT,
            grace_seconds=20.0,
            stop_rank=9,
            before_start=self._clear_leftovers,
        )

    def answers(self) -> bool:
        try:
            psycopg2.connect(self.url_of("postgres"), connect_timeout=CONNECT_SECONDS).close()
        except psycopg2.OperationalError as error:
            if "password authentication failed" in str(error):
                raise StartFailed(
                    f"{self.place.data} was made with another password than {self.secrets} holds: put the one back that was"
                    f" there when it was made, or, to begin anew (with a backup, say), move {self.place.folder} away"
                ) from error
            return False
        return True

    def create_database(self, name: str = DATABASE) -> None:
        """Creates the database unless it stands."""
        connection = psycopg2.connect(self.url_of("postgres"), connect_timeout=CONNECT_SECONDS)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        finally:
            connection.close()

    def _clear_leftovers(self) -> None:
        clear(self.place.data / "postmaster.pid", self.place.data, signal.SIGINT)

    def _initdb(self, folder: Path, password_file: Path) -> None:
        # Trust on TCP would make every user of this machine a superuser of the database.
        access = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={password_file}"]
        locale = ["-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command = self.place.command("initdb", "-D", str(folder), *access, *locale)
        if not self.durable:
            command.append("--no-sync")
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd="/",
            env=_bare_environment(),
            check=False,
            **identity(self.place.user),
        )
        if made.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise StartFailed(f"initdb ({self.place.way}) failed:\n{made.stdout[-500:]}{made.stderr[-1500:]}")


def _bare_environment() -> dict[str, str]:
    """Without the PG… variables that a person may have set for a server of their own."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
