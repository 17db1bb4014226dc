"""The servers of one `up`: the embedded ones, or those that the operator named."""

import os
from pathlib import Path

from broker_project.supervisor import room
from broker_project.supervisor.ports import free_ports
from broker_project.supervisor.postgres import EmbeddedPostgres
from broker_project.supervisor.secrets import Secrets
from broker_project.supervisor.valkey import EmbeddedValkey
from broker_project.supervisor.watch import Watch


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
    if valkey:
        watch.until_ready("valkey", lambda _entry: valkey.answers())
    if postgres:
        watch.until_ready("postgres", lambda _entry: postgres.answers())
        postgres.create_database()
    return urls
