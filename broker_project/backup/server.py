"""The database server as backups need it: connections of their own, to any of its databases, beside Django's pool."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg2
from django.conf import settings

from broker_project.process import application_name
from statemachine.patience import patient

MAINTENANCE: Final = ("postgres", "template1")  # from where a database can be renamed
CONNECT_SECONDS: Final = 5
# What libpq calls in its environment what DATABASE_URL says after the question mark.
_OPTIONS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "channel_binding")


def name() -> str:
    """The database of the settings."""
    return str(settings.DATABASES["default"]["NAME"])


def url_of(database: str) -> str:
    """DATABASE_URL, of another database of the same server."""
    url: str = (
        urlsplit(settings.DATABASE_URL or "postgres://postgres@127.0.0.1:5432/")._replace(path=f"/{database}").geturl()
    )
    return url


def environment(database: str) -> dict[str, str]:
    """What PostgreSQL's programs read of where to connect: no password stands on a command line."""
    told = settings.DATABASES["default"]
    where = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    known = {variable: str(told[key]) for variable, key in where.items() if told.get(key)}
    options: Mapping[str, Any] = told.get("OPTIONS", {})
    known |= {f"PG{option.upper()}".replace("_", ""): str(options[option]) for option in _OPTIONS if option in options}
    bare = {variable: value for variable, value in os.environ.items() if not variable.startswith("PG")}
    return {**bare, **known, "PGDATABASE": database, "PGAPPNAME": application_name()}


@contextmanager
def connected(database: str) -> Iterator[Any]:
    """A connection without our time limits; each statement is its own transaction. Raises psycopg2.OperationalError."""
    with closing(_connect(database)) as connection, patient():
        yield connection


@contextmanager
def maintaining() -> Iterator[Any]:
    """The same to a database of the server that is not ours."""
    with closing(_connect_to_any(MAINTENANCE)) as connection, patient():
        yield connection


def _connect_to_any(databases: Sequence[str]) -> Any:
    try:
        return _connect(databases[0])
    except psycopg2.OperationalError:
        if len(databases) == 1:
            raise
        return _connect_to_any(databases[1:])


def _connect(database: str) -> Any:
    told = settings.DATABASES["default"]
    options = {option: value for option, value in told.get("OPTIONS", {}).items() if option in _OPTIONS}
    connection = psycopg2.connect(
        host=told.get("HOST") or None,
        port=told.get("PORT") or None,
        user=told.get("USER") or None,
        password=told.get("PASSWORD") or None,
        dbname=database,
        connect_timeout=CONNECT_SECONDS,
        application_name=application_name(),
        **options,
    )
    connection.autocommit = True
    return connection


def rows(connection: Any, statement: Any, values: Any = None) -> list[tuple[Any, ...]]:
    """Runs one statement; its rows, if it has any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


def major(connection: Any) -> int:
    """The server's version, as 18."""
    return int(connection.server_version) // 10_000
