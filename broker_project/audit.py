"""Runs every rule of every app in one snapshot. A rule is SQL; each row it returns is a breach of a promise."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from django.db import connection, transaction

from credits.audit import RULES as OF_CREDITS
from jobs.audit import RULES as OF_JOBS
from pool.audit import RULES as OF_POOL

# By promise: P1, P2, … P12.
RULES: Final[dict[str, str]] = dict(
    sorted({**OF_CREDITS, **OF_POOL, **OF_JOBS}.items(), key=lambda rule: (int(rule[0].split(".")[0][1:]), rule[0]))
)
MOST_ROWS: Final = 20  # shown of one rule; all are counted
LONGEST_MINUTES: Final = 10  # of one rule


@dataclass(frozen=True)
class Result:
    """What a rule found: how many breaches, the first of them by column name, and the time it took (milliseconds)."""

    count: int
    rows: list[dict[str, Any]]
    ms: float


def audit(rules: Mapping[str, str] = RULES) -> dict[str, Result]:
    """The result of each rule. Reads only, in one snapshot, so it may run while everything else does."""
    with _snapshot():
        return {name: _result(sql) for name, sql in rules.items()}


def breaches(results: Mapping[str, Result]) -> int:
    return sum(result.count for result in results.values())


@contextmanager
def _snapshot() -> Iterator[None]:
    # Inside of a transaction, as in a test, what that transaction sees is audited.
    outermost = not connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if outermost:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = '{LONGEST_MINUTES}min'")
            cursor.execute("SET LOCAL work_mem = '128MB'")
            cursor.execute("SET LOCAL jit = off")  # compiling takes longer than most rules
        yield


def _result(sql: str) -> Result:
    started = monotonic()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT breach.*, count(*) OVER () AS breaches FROM ({sql}) breach LIMIT {MOST_ROWS}")
        names = [column.name for column in cursor.description or ()]
        found = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    count = found[0]["breaches"] if found else 0
    rows = [{name: value for name, value in row.items() if name != "breaches"} for row in found]
    return Result(count, rows, round((monotonic() - started) * 1000, 1))
