"""Virtual time: the database reads a sequence instead of its clock, Python this object.

A schema that stands before `pg_catalog` in the search path shadows the functions that tell the time. What was bound to the
built-in ones when it was made, the defaults of columns, is altered.
"""

from datetime import UTC, datetime
from typing import Any

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
FUNCTIONS = ("clock_timestamp", "now", "statement_timestamp", "transaction_timestamp")

# One expression without a FROM, so that it is inlined where it is called.
_FUNCTION = """
CREATE FUNCTION simulated.{name}() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT timestamptz '2026-01-01 00:00:00+00'
           + pg_catalog.pg_sequence_last_value('simulated.clock'::regclass) * interval '1 microsecond' $$"""
# How long a lock is waited for is real time, of which a busy machine needs more than a simulated one.
_SET_CONFIG = """
CREATE FUNCTION simulated.set_config(text, text, boolean) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.set_config($1, CASE $1 WHEN 'lock_timeout' THEN '0' ELSE $2 END, $3) $$"""
_DEFAULTS = """
SELECT format('ALTER TABLE %I ALTER COLUMN %I SET DEFAULT simulated.statement_timestamp()', c.relname, a.attname)
FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
WHERE c.relnamespace = 'public'::regnamespace
  AND pg_get_expr(d.adbin, d.adrelid) ~* '(statement_timestamp|now|clock_timestamp)\\(|current_timestamp'"""


class Clock:
    """Microseconds since the epoch of all seeds. Stands for the module `time` in what is simulated."""

    def __init__(self) -> None:
        self.us = 0

    def time(self) -> float:
        return EPOCH + self.us / 1e6

    def monotonic(self) -> float:
        return self.us / 1e6


def install(cursor: Any, database: str) -> None:
    """Gives a migrated database a clock that is set; sessions that connect from now on read it."""
    cursor.execute("CREATE SCHEMA simulated")
    cursor.execute("CREATE SEQUENCE simulated.clock MINVALUE 0")
    set_to(cursor, 0)
    for name in FUNCTIONS:
        cursor.execute(_FUNCTION.format(name=name))
    cursor.execute(_DEFAULTS)
    for (statement,) in cursor.fetchall():
        cursor.execute(statement)
    cursor.execute(_SET_CONFIG)
    cursor.execute(f"ALTER DATABASE {database} SET search_path = simulated, pg_catalog, public")
    cursor.execute(f"ALTER DATABASE {database} SET deadlock_timeout = '10ms'")
    cursor.execute(f"ALTER DATABASE {database} SET jit = off")


def set_to(cursor: Any, us: int) -> None:
    """Every session reads this time from now on; no transaction holds it back."""
    cursor.execute("SELECT setval('simulated.clock', %s)", [us])
