"""The database of a simulation: a migrated one of its own on the server of the run, with a clock that is set."""

import os
from typing import Any
from weakref import WeakKeyDictionary

import psycopg2
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections

from tests.simulated import clock

CONNECTIONS = 40
_prepared: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # SQL → name, by connection
KEPT = {"django_migrations", "django_content_type", "auth_permission"}


def make() -> None:
    """Makes the database, and lets Django use it from now on."""
    name = f"simulated_{os.getpid()}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connections.close_all()
    connection.close_pool()  # type: ignore[attr-defined]
    settings.DATABASE_POOL_SIZE = CONNECTIONS
    settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = name
    call_command("migrate", verbosity=0)
    # Time limits are of real time, see `clock`.
    settings.DATABASES["default"]["OPTIONS"]["options"] = "-c plan_cache_mode=force_generic_plan"
    with connection.cursor() as cursor:
        clock.install(cursor, name)
    connections.close_all()
    connection.close_pool()  # type: ignore[attr-defined]


def drop() -> None:
    """Takes it away; sessions that are left over are ended."""
    name = connection.settings_dict["NAME"]
    connections.close_all()
    parameters = {**connection.get_connection_params(), "dbname": "postgres"}
    ours = psycopg2.connect(**{key: value for key, value in parameters.items() if key != "cursor_factory"})
    ours.autocommit = True
    with ours.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    ours.close()


def monitor() -> Any:
    """A connection that no task uses: it looks, sets the clock and asks who waits."""
    parameters = connection.get_connection_params()
    found = psycopg2.connect(**{key: value for key, value in parameters.items() if key != "cursor_factory"})
    found.autocommit = True
    return found


def ask(cursor: Any, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a question that is asked often: planning it costs more than answering it."""
    if sql not in _prepared.setdefault(cursor.connection, {}):
        parts = sql.split("%s")
        text = parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], 1))
        _prepared[cursor.connection][sql] = name = f"asked_{len(_prepared[cursor.connection])}"
        cursor.execute(f"PREPARE {name} AS {text}")
    marks = ", ".join(["%s"] * len(parameters))
    cursor.execute(f"EXECUTE {_prepared[cursor.connection][sql]}" + (f"({marks})" if marks else ""), parameters or None)
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def empty(cursor: Any) -> None:
    """Forgets all rows but those of Django itself."""
    names = [name for name in connection.introspection.table_names() if name not in KEPT]
    cursor.execute("SET session_replication_role = replica")  # past the triggers that keep the ledger
    cursor.execute(f"TRUNCATE {', '.join(names)} CASCADE")
    cursor.execute("RESET session_replication_role")
