"""A small world that is as it should be, as rows, a log and a book; self-tests of the referee break it in one place each.

Tables without constraints or triggers, so that also what the database would refuse can stand in them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg2

from tests.referee import Evidence

SCHEMA = "referee"
DONE, CANCELLED, AGAIN = (f"00000000-0000-7000-8000-00000000000{number}" for number in (1, 2, 3))
MICRO = 1_000_000
BEGAN = 1_893_456_000.0  # seconds since the epoch: the midnight from which the book counts here
DAY = "2030-01-01 00:00:0"
KEYS = [f"job.{DONE}.a1", f"job.{AGAIN}.a1", f"job.{AGAIN}.a2"]
USE = [("available", "reserved"), ("reserved", "busy"), ("busy", "available")]

# Jobs: one was done, one was cancelled while it waited, one failed and ran again.
TABLES: dict[str, tuple[str, list[Sequence[Any]]]] = {
    "tenants_tenant": ("id, name", [(1, "ann"), (2, "bob")]),
    "jobs_jobtype": (
        "id, name, delivery, max_runtime_ms, upstream",
        [(1, "render", "at_most_once", 10_000, '{"find": {"path": ""}}'),
         (2, "again", "at_least_once", 10_000, '{"find": {"path": ""}}')],
    ),
    "pool_pool": ("id, tracks_credits", [(1, True)]),
    "pool_upstreamaccount": (
        "id, pool_id, name, tracked_since",
        [(1, 1, "acct-1", "2029-01-01"), (2, 1, "acct-2", None)],
    ),
    "pool_resource": (
        "id, pool_id, account_id, number, state, fence",
        [(1, 1, 1, 1, "available", 2), (2, 1, 2, 1, "available", 1)],
    ),
    "pool_resourcemove": (
        "id, subject_id, from_state, to_state, at",
        [
            (number, session, *move, f"{DAY}{second}+00")
            for number, (session, second, *move) in enumerate(
                [(1, 0, "", "available"), (2, 0, "", "available"),
                 *((session, begun + after, *move) for session, begun in ((1, 0), (2, 0), (1, 5))
                   for after, move in zip((0, 1, 3), USE, strict=True))], 1)
        ],
    ),
    "jobs_job": (
        "id, tenant_id, type_id, pool_id, idempotency_key, state, run, version, price, charged, settle, flagged",
        [
            (DONE, 1, 1, 1, "k1", "completed", 1, 4, 2 * MICRO, MICRO, "outcome.units * 0.5", ""),
            (CANCELLED, 1, 1, 1, "k2", "cancelled", 1, 2, 2 * MICRO, 0, "", ""),
            (AGAIN, 2, 1, 1, "k1", "completed", 2, 8, 2 * MICRO, 2 * MICRO, "", ""),
        ],
    ),
    "jobs_jobmove": (
        "id, subject_id, from_state, to_state",
        [
            (number, *move)
            for number, move in enumerate(
                [(DONE, "", "pending"), (DONE, "pending", "assigned"), (DONE, "assigned", "processing"),
                 (DONE, "processing", "completed"), (CANCELLED, "", "pending"), (CANCELLED, "pending", "cancelled"),
                 (AGAIN, "", "pending"), (AGAIN, "pending", "assigned"), (AGAIN, "assigned", "processing"),
                 (AGAIN, "processing", "failed"), (AGAIN, "failed", "pending"), (AGAIN, "pending", "assigned"),
                 (AGAIN, "assigned", "processing"), (AGAIN, "processing", "completed")], 1)
        ],
    ),
    "jobs_attempt": (
        "id, job_id, resource_id, account_id, run, number, dispatch_key, fence, phase, verdict, opened_at, called_at, "
        "ended_at, finished_at, sendings, error_code, reference, usage_problem",
        [
            (1, DONE, 1, 1, 1, 1, KEYS[0], 1, "ended", "succeeded", "2030-01-01 00:00:00+00", "2030-01-01 00:00:01+00",
             "2030-01-01 00:00:03+00", "2030-01-01 00:00:04+00", 1, "", "", ""),
            (2, AGAIN, 2, 2, 1, 1, KEYS[1], 1, "ended", "failed", "2030-01-01 00:00:00+00", "2030-01-01 00:00:01+00",
             "2030-01-01 00:00:03+00", "2030-01-01 00:00:04+00", 1, "", "", ""),
            (3, AGAIN, 1, 1, 2, 2, KEYS[2], 2, "ended", "succeeded", "2030-01-01 00:00:05+00", "2030-01-01 00:00:06+00",
             "2030-01-01 00:00:08+00", "2030-01-01 00:00:09+00", 1, "", "", ""),
        ],
    ),
    "jobs_evidence": ("id, attempt_id, kind, content", []),
    "jobs_latecompletion": ("id, job_id, run, decided_at", []),
    "webhooks_event": (
        "id, tenant_id, type, job_id, job_run",
        [(1, 1, "job.completed", DONE, 1), (2, 1, "job.cancelled", CANCELLED, 1), (3, 2, "job.failed", AGAIN, 1),
         (4, 2, "job.completed", AGAIN, 2)],
    ),
    "credits_account": (
        "id, ledger, kind, owner_id",
        [(1, "tenant", "issue", None), (2, "tenant", "revenue", None), (3, "tenant", "wallet", 1), (4, "tenant", "wallet", 2),
         (5, "resource:1", "upstream", 1), (6, "resource:1", "upstream_spend", None),
         (7, "resource:1", "upstream_topup", None)],
    ),
    "credits_balance": (
        "account_id, posted, held, credit_limit, hard_floor",
        [(3, 9 * MICRO, 0, 0, 0), (4, 8 * MICRO, 0, 0, 0), (5, 6 * MICRO, 0, 0, 0)],
    ),
    "credits_hold": (
        "id, account_id, job_id, run, attempt, amount, status, captured",
        [(1, 3, DONE, 1, 0, 2 * MICRO, "captured", MICRO), (2, 3, CANCELLED, 1, 0, 2 * MICRO, "released", None),
         (3, 4, AGAIN, 1, 0, 2 * MICRO, "released", None), (4, 4, AGAIN, 2, 0, 2 * MICRO, "captured", 2 * MICRO),
         (5, 5, DONE, 1, 1, 2 * MICRO, "captured", 2 * MICRO), (6, 5, AGAIN, 2, 2, 2 * MICRO, "captured", 2 * MICRO)],
    ),
    "credits_transfer": (
        "id, op_key, ledger, debit_id, credit_id, amount, code, hold_id, reverses_id",
        [(1, "grant:1", "tenant", 1, 3, 10 * MICRO, "grant_paid", None, None),
         (2, "grant:2", "tenant", 1, 4, 10 * MICRO, "grant_paid", None, None),
         (3, "settle:1", "tenant", 3, 2, MICRO, "settle", 1, None),
         (4, "settle:4", "tenant", 4, 2, 2 * MICRO, "settle", 4, None),
         (5, "topup:1", "resource:1", 7, 5, 10 * MICRO, "topup", None, None),
         (6, "settle:5", "resource:1", 5, 6, 2 * MICRO, "settle", 5, None),
         (7, "settle:6", "resource:1", 5, 6, 2 * MICRO, "settle", 6, None)],
    ),
    "credits_reading": ("id, account_id, key, said, posted, held, drift", []),
}  # fmt: skip


def line(act: str, tenant: str, key: str, status: int | None, job: str = "", **answer: Any) -> dict[str, Any]:
    at, unless = answer.pop("at"), answer.pop("unless", None)
    return {"at": at, "tenant": tenant, "act": act, "key": key, "type": "render", "payload": {}, "unless": unless,
            "status": status, "job": job, "answer": answer}  # fmt: skip


LOG = [
    line("submit", "ann", "k1", None, at=1),
    line("submit", "ann", "k1", 202, DONE, at=2, version=1, state="pending"),
    line("submit", "ann", "k2", 202, CANCELLED, at=3, version=1, state="pending"),
    line("submit", "ann", "k9", 402, at=4),
    line("submit", "bob", "k1", 202, AGAIN, at=5, version=1, state="pending"),
    line("cancel", "ann", "", 200, CANCELLED, at=6, version=2, state="cancelled"),
    line("get", "bob", "", 404, DONE, at=7, title="not found", instance="/1"),
    line("get", "bob", "", 404, CANCELLED, at=8, title="not found", instance="/2"),
    line("get", "ann", "", 200, DONE, at=9, version=3, state="processing"),
    line("get", "ann", "", 304, DONE, at=10, unless=3),
    line("get", "ann", "", 200, DONE, at=11, version=4, state="completed"),
    line("replay", "bob", "", 202, AGAIN, at=12, version=5, state="pending"),
]


def execution(number: int, key: str, account: str, second: float, outcome: str = "done") -> dict[str, Any]:
    units, start = 2.0, BEGAN + second
    billed = units if outcome == "done" else 0
    return {"what": "execution", "id": f"run-{number}", "kind": "run", "account": account, "slot": 1, "key": key,
            "reference": key.rpartition(".")[0], "accepted": start, "start": start, "end": start + 2, "answered": start + 2,
            "outcome": outcome, "units": units, "billed": billed, "repeat_of": None, "repeats": 0}  # fmt: skip


def received(key: str, account: str, verdict: str = "accepted") -> dict[str, Any]:
    return {"what": "request", "at": 1, "account": account, "kind": "run", "key": key, "verdict": verdict}


BOOK = [
    received(KEYS[0], "acct-1"),
    received(KEYS[1], "acct-2"),
    received(KEYS[2], "acct-1"),
    execution(1, KEYS[0], "acct-1", 1),
    execution(2, KEYS[1], "acct-2", 1, "failed"),
    execution(3, KEYS[2], "acct-1", 6),
]


class Doctored:
    """The intact evidence in a schema of its own; `change` what it says, then ask for the `evidence`."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.url = f"{database_url}?options=-csearch_path%3D{SCHEMA}"
        self.folder = folder
        self._connection = psycopg2.connect(self.url)
        self.change(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")
        # The columns of the real tables, so that what is asked here is what is there; but none of their guards.
        for table in TABLES:
            self.change(f"CREATE TABLE {table} AS SELECT * FROM public.{table} WITH NO DATA")
        with self._connection.cursor() as cursor:
            self._mended = "".join(_insertion(cursor, table) for table in TABLES)
        self.mend()

    def mend(self) -> None:
        """All is as it should be, again."""
        self.log, self.book = list(LOG), list(BOOK)
        self.change("".join(f"DELETE FROM {table};" for table in TABLES) + self._mended)

    def change(self, sql: str) -> None:
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(sql)

    def evidence(self) -> Evidence:
        """Written to files as programs and simulators write them."""
        log, book = self.folder / "log.jsonl", self.folder / "book.jsonl"
        for path, lines in ((log, self.log), (book, self.book)):
            path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        return Evidence(log, [book], self.url)

    def close(self) -> None:
        self.change(f"DROP SCHEMA {SCHEMA} CASCADE")
        self._connection.close()


def _insertion(cursor: Any, table: str) -> str:
    columns, found = TABLES[table]
    if not found:
        return ""
    values = ", ".join(cursor.mogrify("%s", [tuple(row)]).decode() for row in found)
    return f"INSERT INTO {table} ({columns}) VALUES {values};"


def changed(lines: Sequence[Mapping[str, Any]], number: int, **fields: Any) -> list[Any]:
    """The lines with fields of one of them as given."""
    return [{**each, **fields} if place == number else dict(each) for place, each in enumerate(lines)]
