"""Runs every rule of every app in one snapshot. A rule is SQL; each row it returns is a breach of a promise."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic, time
from typing import Any, Final

from django.db import connection, transaction

from broker_project import checkpoint
from broker_project.checkpoint import PATIENCE_SECONDS, Checkpoint, Kept
from broker_project.touched import FIGURES, SCOPES, Part
from credits.audit import RULES as OF_CREDITS
from files.audit import RULES as OF_FILES
from jobs.audit import RULES as OF_JOBS
from pool.audit import RULES as OF_POOL
from statemachine.patience import patient

# By promise: P1, P2, … P12.
RULES: Final[dict[str, str]] = dict(
    sorted(
        {**OF_CREDITS, **OF_FILES, **OF_POOL, **OF_JOBS}.items(),
        key=lambda rule: (int(rule[0].split(".")[0][1:]), rule[0]),
    )
)
MOST_ROWS: Final = 20  # shown of one rule; all are counted
LONGEST_MINUTES: Final = 10  # of one rule


@dataclass(frozen=True)
class Result:
    """What a rule found: how many breaches, the first of them by column name, and the time it took (milliseconds)."""

    count: int
    rows: list[dict[str, Any]]
    ms: float


@dataclass(frozen=True)
class Run:
    """The results by rule, the checkpoint they begin at (None: all was asked), and whether it moved on to this run."""

    results: dict[str, Result]
    since: Checkpoint | None
    moved: bool
    touched_ms: float  # to read the touched rows, before the first rule
    figures_ms: float  # to sum what is remembered, after the last


def audit(rules: Mapping[str, str] = RULES, part: Part | None = None) -> dict[str, Result]:
    """The result of each rule, over all or over a part. Reads only, in one snapshot, so it may run under load."""
    with _snapshot(part):
        return _results(rules, part)


def audit_and_remember(
    rules: Mapping[str, str] = RULES, *, since_checkpoint: bool = False, patience_seconds: float = PATIENCE_SECONDS
) -> Run:
    """Asks all, or with `since_checkpoint` what was touched since; then, if all is clean, moves the checkpoint.

    Without a checkpoint that serves these rules, all is asked. What is remembered is read in the same snapshot, and
    written after it in a transaction of its own.
    """
    number = _number(rules)
    seen = checkpoint.load()
    serves = seen if seen and seen.serves(number) else None
    part = Part(serves.marks) if serves and since_checkpoint else None
    marks = None
    if checkpoint.may_be_written():
        marks = checkpoint.find_marks(serves.marks if serves else {}, patience_seconds)
    with _snapshot(part) as touched_ms:
        results = _results(rules, part)
        begun = monotonic()
        remembers = marks is not None and not breaches(results)
        figures = _figures(marks, part) if marks is not None and remembers else []
        figures_ms = _ms(monotonic() - begun)
    moved = remembers and checkpoint.move(seen, Checkpoint(marks or {}, number, int(time())), figures)
    return Run(results, serves if part else None, moved, touched_ms, figures_ms)


def breaches(results: Mapping[str, Result]) -> int:
    return sum(result.count for result in results.values())


@contextmanager
def _snapshot(part: Part | None) -> Iterator[float]:
    """Yields how long it took to read the touched rows (milliseconds)."""
    # Inside of a transaction, as in a test, what that transaction sees is audited.
    outermost = not connection.in_atomic_block
    with patient(LONGEST_MINUTES * 60 + 10), transaction.atomic(), connection.cursor() as cursor:
        if outermost:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if part:
            part.make_tables()
        if outermost:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(f"SET LOCAL statement_timeout = '{LONGEST_MINUTES}min'")
            cursor.execute("SET LOCAL work_mem = '128MB'")
            cursor.execute("SET LOCAL jit = off")  # compiling takes longer than most rules
        begun = monotonic()
        if part:
            part.fill_tables()
        yield _ms(monotonic() - begun)


def _results(rules: Mapping[str, str], part: Part | None) -> dict[str, Result]:
    return {name: _result(part.narrow(name, sql) if part else sql) for name, sql in rules.items()}


def _result(sql: str) -> Result:
    started = monotonic()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT breach.*, count(*) OVER () AS breaches FROM ({sql}) breach LIMIT {MOST_ROWS}")
        names = [column.name for column in cursor.description or ()]
        found = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    count = found[0]["breaches"] if found else 0
    rows = [{name: value for name, value in row.items() if name != "breaches"} for row in found]
    return Result(count, rows, _ms(monotonic() - started))


def _figures(marks: Mapping[str, int], part: Part | None) -> list[Kept]:
    kept: list[Kept] = []
    with connection.cursor() as cursor:
        for name, figure in FIGURES.items():
            sql = figure.scope.narrow(figure.sql) if part else figure.sql
            cursor.execute(sql.format(**marks))
            kept += [(name, subject_id, value) for subject_id, value in cursor.fetchall()]
    return kept


def _number(rules: Mapping[str, str]) -> int:
    """Another one for other rules, or when they are asked otherwise."""
    text = repr((sorted(rules.items()), sorted(SCOPES.items()), sorted(FIGURES.items())))
    return int.from_bytes(sha256(text.encode()).digest()[:7])


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
