"""Raw SQL in, rows out: what every `queries` module is written with."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Model

from statemachine.actors import current_actor
from statemachine.prepared import execute, execute_together

Row = dict[str, Any]
M = TypeVar("M", bound=Model)
TELL = """
SELECT set_config('berth.cause', %s, true), set_config('berth.actor', %s, true),
       set_config('lock_timeout', COALESCE(NULLIF(%s, ''), current_setting('lock_timeout')), true)"""
_JSONB = 3802  # the type's OID: Django leaves jsonb as text, so it is read here


def fetch(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
    """Runs one statement, prepared, and returns its rows by column name; an empty list when it returns none."""
    with connection.cursor() as cursor:
        execute(cursor, sql, parameters)
        return _rows(cursor)


def fetch_together(*statements: tuple[str, Sequence[Any]]) -> list[Row]:
    """Runs the statements in one message, prepared, and returns the rows of the last one by column name.

    They are a transaction of their own where none is open, and part of it where one is. Placeholders are all `%s`.
    """
    with connection.cursor() as cursor:
        execute_together(cursor, statements)
        return _rows(cursor)


def now() -> datetime:
    """By the database's clock, as all times are."""
    moment: datetime = fetch("SELECT clock_timestamp() AS now")[0]["now"]
    return moment


def load(model: type[M], where: str, parameters: Sequence[Any]) -> list[M]:
    """Rows of a model by a prepared statement: a third of what the same question costs through a queryset."""
    fields = model._meta.concrete_fields
    columns = ", ".join(f'"{field.column}"' for field in fields)
    names = [field.attname for field in fields]
    found = fetch(f'SELECT {columns} FROM "{model._meta.db_table}" WHERE {where}', parameters)
    return [model.from_db("default", names, list(row.values())) for row in found]


def tell(cause: str, lock_timeout: str = "") -> None:
    """Names cause and actor for the history of this transaction, for moves not made by a machine's `take`."""
    fetch(*telling(cause, lock_timeout))


def telling(cause: str, lock_timeout: str = "") -> tuple[str, list[Any]]:
    """The statement of `tell`, and its parameters."""
    return TELL, [cause, current_actor(), lock_timeout]


def _rows(cursor: Any) -> list[Row]:
    if cursor.description is None:
        return []
    names = [column.name for column in cursor.description]
    found = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    for name in [column.name for column in cursor.description if column.type_code == _JSONB]:
        for row in found:
            row[name] = None if row[name] is None else json.loads(row[name])
    return found
