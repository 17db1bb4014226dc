"""Prepared statements: a hot statement is planned once per connection instead of each time it runs.

Planning costs more than running for nearly every statement here (the claim: 1.2 ms against 0.25 ms of a backend's
time). Behind a proxy that pools by transaction, connections do not keep them: PREPARED_STATEMENTS=0 turns them off.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import connection

_NAMED = re.compile(r"%\((\w+)\)s")
_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


Parameters = Sequence[Any] | Mapping[str, Any]


def execute(cursor: Any, sql: str, parameters: Parameters = ()) -> None:
    """Runs `sql` (placeholders as psycopg2 writes them) on Django's `cursor`, prepared by its connection."""
    statement = _statement(sql)
    values = statement.values(parameters)
    if not _can_be_prepared(values):
        # Without parameters psycopg2 must not look for placeholders: a LIKE has percent signs of its own.
        cursor.execute(sql, parameters or None)
        return
    _prepare(cursor, statement)
    cursor.execute(statement.call, values)


def execute_together(cursor: Any, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Runs the statements in one message, prepared; the cursor has what the last one returns.

    Where no transaction is open they are one by themselves, committed before the answer is sent (PostgreSQL,
    "Multiple Statements in a Simple Query"); each has a snapshot of its own. Placeholders are all `%s`.
    """
    texts = []
    for sql, values in statements:
        if _can_be_prepared(values):
            _prepare(cursor, _statement(sql))
            sql = _statement(sql).call  # noqa: PLW2901  what is sent instead
        texts.append(sql)
    cursor.execute("; ".join(texts), [value for _, values in statements for value in values])


def _prepare(cursor: Any, statement: "_Statement") -> None:
    known = _prepared.setdefault(connection.connection, set())
    if statement.name not in known:
        cursor.execute(f"PREPARE {statement.name} AS {statement.text}")
        known.add(statement.name)


class _Statement:
    """A statement with numbered parameters, the name it is prepared under, and how it is called."""

    def __init__(self, sql: str) -> None:
        named = _NAMED.findall(sql)
        self.order = list(dict.fromkeys(named))
        count = len(self.order) if named else sql.count("%s")
        numbers = {name: f"${number}" for number, name in enumerate(self.order, 1)}
        if named:
            self.text = _NAMED.sub(lambda match: numbers[match[1]], sql)
        else:
            parts = sql.split("%s")
            self.text = parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], 1))
        self.name = "berth_" + hashlib.sha256(sql.encode()).hexdigest()[:16]
        self.call = f"EXECUTE {self.name}" + (f"({', '.join(['%s'] * count)})" if count else "")

    def values(self, parameters: Parameters) -> list[Any]:
        """The parameters in the order of the placeholders."""
        return [parameters[name] for name in self.order] if isinstance(parameters, Mapping) else list(parameters)


@lru_cache(maxsize=512)
def _statement(sql: str) -> _Statement:
    return _Statement(sql)


def _can_be_prepared(values: Sequence[Any]) -> bool:
    return settings.PREPARED_STATEMENTS and not any(_untyped(value) for value in values)


def _untyped(value: Any) -> bool:
    """A list with a None has no type of its own that EXECUTE could convert."""
    return isinstance(value, list) and (not value or None in value)
