"""Faults that the database itself makes: a write that is refused, or whose connection dies, counted row by row."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from tests import db

Fault = Literal["refused", "killed", "killed at commit"]
REFUSED = "a write was refused on purpose"
_KILL = "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10);"
_DO = {"refused": f"RAISE EXCEPTION '{REFUSED}';", "killed": _KILL, "killed at commit": _KILL}


def written_by(verb: Callable[[], object]) -> dict[str, int]:
    """How many rows the verb inserts or updates, by table."""
    with _triggers(db.TABLES, "INSERT INTO faults_seen VALUES (TG_TABLE_NAME);"):
        db.execute("CREATE UNLOGGED TABLE faults_seen (name text)")
        try:
            verb()
            return Counter(name for (name,) in db.rows("SELECT name FROM faults_seen"))
        finally:
            db.execute("DROP TABLE faults_seen")


@contextmanager
def at_row(table: str, number: int, fault: Fault) -> Iterator[None]:
    """Inside, the write of the `number`th row of this table fails, whichever connection makes it."""
    # A sequence counts: what a transaction took from it stays taken when it is rolled back.
    db.execute("CREATE SEQUENCE faults_count")
    try:
        with _triggers([table], f"IF nextval('faults_count') = {number} THEN {_DO[fault]} END IF;", fault):
            yield
    finally:
        db.execute("DROP SEQUENCE faults_count")


@contextmanager
def _triggers(tables: Sequence[str], body: str, fault: Fault = "refused") -> Iterator[None]:
    db.execute(
        f"CREATE FUNCTION faults_happen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
    )
    late = fault == "killed at commit"
    try:
        for table in tables:
            db.execute(
                f"CREATE {'CONSTRAINT' if late else ''} TRIGGER faults AFTER INSERT OR UPDATE ON {table}"
                f" {'DEFERRABLE INITIALLY DEFERRED' if late else ''} FOR EACH ROW EXECUTE FUNCTION faults_happen()"
            )
        yield
    finally:
        db.execute("DROP FUNCTION faults_happen() CASCADE")
