"""The servers of one `up`: the embedded ones, or those that the operator named."""

import os
import time
from pathlib import Path

import psycopg2

from broker_project.supervisor import room
from broker_project.supervisor.errors import StartFailed
from broker_project.supervisor.ports import free_ports
from broker_project.supervisor.postgres import CONNECT_SECONDS, EmbeddedPostgres
from broker_project.supervisor.secrets import Secrets
from broker_project.supervisor.valkey import EmbeddedValkey
from broker_project.supervisor.watch import Watch

THEIR_SECONDS = 15.0


def start_servers(watch: Watch, home: Path, secrets: Secrets, wanted: set[str]) -> dict[str, str]:
    """Starts those of `postgres` and `valkey` that are wanted and that the operator did not bring; both at once.

    Returns DATABASE_URL and REDIS_URL, empty for what is neither brought nor wanted.
    """
    urls = {name: os.environ.get(name, "") for name in ("DATABASE_URL", "REDIS_URL")}
    postgres_port, valkey_port = free_ports(2)
    valkey = postgres = None
    if "valkey" in wanted and not urls["REDIS_URL"]:
        valkey = EmbeddedValkey(home, valkey_port, secrets.redis_password)
        watch.table.start(valkey.role(watch.log("valkey")))
        urls["REDIS_URL"] = valkey.url
    if "postgres" in wanted and not urls["DATABASE_URL"]:
        postgres = EmbeddedPostgres(home, postgres_port, secrets.database_password)
        room.check([postgres.place.folder])
        watch.say(f"Postgres 18 runs {postgres.place.way}, with its data in {postgres.place.data}")
        postgres.initialise()
        watch.table.start(postgres.role(watch.log("postgres")))
        urls["DATABASE_URL"] = postgres.url
    if not postgres and urls["DATABASE_URL"]:
        _await_theirs(watch, urls["DATABASE_URL"])
    if valkey:
        watch.until_ready("valkey", lambda _entry: valkey.answers())
    if postgres:
        watch.until_ready("postgres", lambda _entry: postgres.answers())
        postgres.create_database()
    return urls


def _await_theirs(watch: Watch, url: str) -> None:
    """A database of the operator's own may be starting too. Raises StartFailed when it does not answer in time."""
    end, told = time.monotonic() + THEIR_SECONDS, False
    while (error := _unreachable(url)) is not None:
        if time.monotonic() > end:
            raise StartFailed(f"the database that DATABASE_URL names does not answer: {error}")
        if not told:
            watch.say(f"The database that DATABASE_URL names is waited for: {error}")
            told = True
        watch.pause()


def _unreachable(url: str) -> str | None:
    """What keeps us from connecting. URLs in a spelling that only Django knows are left to Django."""
    if not url.startswith(("postgres://", "postgresql://")):
        return None
    try:
        psycopg2.connect(url, connect_timeout=CONNECT_SECONDS).close()
    except psycopg2.ProgrammingError:
        return None
    except psycopg2.OperationalError as error:
        return str(error).strip().splitlines()[0]
    return None
