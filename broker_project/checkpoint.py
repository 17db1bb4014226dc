"""Up to where the database was found clean: for each table that only grows an id, and the sums kept up to it.

**Why nothing is missed.** An id is drawn from a sequence before its row is committed, so a row may appear behind ids that
were seen long ago: the highest id seen is no checkpoint. A mark is an id of which we know that no row at or below it can
still appear, and it is found in three steps before the snapshot of the audit is taken:

1. Read how far each sequence has come. A later row has a higher id.
2. List who is writing to the tables: a row draws its id while its INSERT runs, and an INSERT locks its table (ROW
   EXCLUSIVE) before that, until its transaction ends. Whoever drew an id before step 1 is therefore listed, or has ended;
   prepared transactions are listed too, and readers and vacuum are not.
3. Wait until all those listed have ended. A transaction is visible to new snapshots before it lets its locks go, so the
   snapshot taken next sees every row up to step 1 that will ever be there.

A table whose writers do not end within `PATIENCE_SECONDS` keeps its earlier mark: the next run asks more, and misses nothing.

The rows up to a mark are final and append-only, so a sum over them never changes, and the sums kept (what an account's
entries come to, what was charged to a lot, the last attempt and move of a session) are exact with all that is beyond the
mark: they need not be of the moment of the run. Rows that change (jobs, holds, lots, attempts) are no matter of marks:
they are asked again when a new row (move, entry, hold, lot, attempt, evidence, event) says that they were touched, and as
long as they are open. What changes a closed row and leaves no such trace was not done by Berth: the whole audit is for that.

The checkpoint is moved by a clean run alone, so a breach is found again until it is mended. It is worth nothing for other
rules than it was made with, nor once a sequence stands before its mark (a table was emptied): the next run asks all.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from statemachine.crashpoints import crashpoint

GROWING: Final = (
    "credits_hold",
    "credits_lot",
    "credits_transfer",
    "jobs_attempt",
    "jobs_evidence",
    "jobs_jobmove",
    "pool_resourcemove",
    "webhooks_event",
)
PATIENCE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.02
REACHED = "SELECT t, coalesce(pg_sequence_last_value(pg_get_serial_sequence(t, 'id')::regclass), 0) FROM unnest(%s) t"
WRITERS = """
SELECT l.relation::regclass::text, l.virtualtransaction FROM pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = ANY(%s::regclass[]) AND l.pid IS DISTINCT FROM pg_backend_pid()
"""
MAY_WRITE = """
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'
       AND has_table_privilege('broker_project_auditfigure', 'INSERT, UPDATE, DELETE')
"""
REPLACE = """
WITH given AS (SELECT * FROM unnest(%s::text[], %s::bigint[], %s::numeric[]) AS g (name, subject_id, figure)),
gone AS (
    DELETE FROM broker_project_auditfigure f
    WHERE NOT EXISTS (SELECT FROM given g WHERE g.name = f.name AND g.subject_id = f.subject_id))
INSERT INTO broker_project_auditfigure AS f (name, subject_id, figure) SELECT name, subject_id, figure FROM given
ON CONFLICT (name, subject_id) DO UPDATE SET figure = excluded.figure WHERE f.figure <> excluded.figure
"""
Kept = tuple[str, int, Any]  # name, subject, figure


@dataclass(frozen=True)
class Checkpoint:
    """Table → last final id, the rules it was made with (a number), and when (seconds since 1970)."""

    marks: Mapping[str, int]
    rules: int
    at: int

    def serves(self, rules: int) -> bool:
        """Whether what is beyond it may be asked alone."""
        reached = _reached()
        return self.rules == rules and all(self.marks.get(table, -1) in range(reached[table] + 1) for table in GROWING)


def load() -> Checkpoint | None:
    """As last committed, and None when there is none."""
    with connection.cursor() as cursor:
        names = [*GROWING, "rules", "at"]
        cursor.execute(
            "SELECT name, figure FROM broker_project_auditfigure WHERE subject_id = 0 AND name = ANY(%s)", [names]
        )
        found = {name: int(figure) for name, figure in cursor.fetchall()}
    if "rules" not in found or "at" not in found:
        return None
    return Checkpoint(rules=found.pop("rules"), at=found.pop("at"), marks=found)


def may_be_written() -> bool:
    """Not on a standby, nor by a role that only reads."""
    with connection.cursor() as cursor:
        cursor.execute(MAY_WRITE)
        return bool(cursor.fetchone()[0])


def find_marks(earlier: Mapping[str, int], patience_seconds: float) -> dict[str, int]:
    """The last final id of each table for snapshots taken from now on; the earlier one, or 0, where a writer goes on."""
    reached = _reached()
    until = time.monotonic() + patience_seconds
    writing = awaited = _writers()
    while writing and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        writing = awaited & _writers()
    held_up = {table for table, _ in writing}
    return {table: earlier.get(table, 0) if table in held_up else reached[table] for table in GROWING}


def move(seen: Checkpoint | None, to: Checkpoint, figures: list[Kept]) -> bool:
    """Writes the new checkpoint whole, unless another run has moved it since it was `seen`: then False.

    Locks the table against other writers; a second caller waits, then finds that it was moved, and leaves it.
    """
    heads = {**to.marks, "rules": to.rules, "at": to.at}
    rows = [*((name, 0, figure) for name, figure in heads.items()), *figures]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE broker_project_auditfigure IN SHARE ROW EXCLUSIVE MODE")
        if load() != seen:
            return False
        crashpoint("checkpoint.locked")
        cursor.execute(REPLACE, [list(column) for column in zip(*rows, strict=True)])
        crashpoint("checkpoint.replaced")
    return True


def _reached() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(REACHED, [list(GROWING)])
        return dict(cursor.fetchall())


def _writers() -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(WRITERS, [list(GROWING)])
        return set(cursor.fetchall())
