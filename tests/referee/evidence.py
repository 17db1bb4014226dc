"""What the referee judges by: the clients' log, the books of the upstreams and the database, each read as plain data.

Nothing here, nor in the rules, is Berth's own code: what judges must not share the mistakes of what it judges.
"""

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extras import RealDictCursor

Line = Mapping[str, Any]
Row = Mapping[str, Any]
MOST_ROWS = 20  # of one rule that are shown
TERMINAL = ("completed", "failed", "cancelled")
PROVEN = ("succeeded", "partial")


@dataclass(frozen=True)
class Violation:
    """A rule that does not hold: its letter and number, what it says, and what breaks it (at most MOST_ROWS)."""

    rule: str
    what: str
    rows: list[Any]


@dataclass(frozen=True)
class Rule:
    """`breaches` gives what breaks the sentence that its docstring is."""

    name: str
    breaches: Callable[["Evidence"], Sequence[Any]]

    def violation(self, evidence: "Evidence") -> Violation | None:
        found = list(self.breaches(evidence))
        what = " ".join((self.breaches.__doc__ or "").split())
        return Violation(self.name, what, found[:MOST_ROWS]) if found else None


class Evidence:
    """`client_log`: a line for each request of a tenant's program: {at, tenant, act: submit | cancel | get | replay, key,
    type, payload, unless (the version it knew, of If-None-Match), status (null: cut), job, answer}. `books`: what
    `python -m simulator --book FILE` wrote, one for each.

    The world has come to rest: no load, no faults, every job had its time.
    """

    def __init__(self, client_log: Path, books: Sequence[Path], database_url: str) -> None:
        self._client_log, self._books, self._database_url = client_log, books, database_url

    @cached_property
    def requests(self) -> list[Line]:
        """What tenants' programs asked and were answered, in their order."""
        return sorted(_lines(self._client_log), key=lambda line: line["at"])

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Line]]:
        """(tenant, idempotency key) → its submits."""
        found: dict[tuple[str, str], list[Line]] = defaultdict(list)
        for line in self.requests:
            if line["act"] == "submit":
                found[line["tenant"], line["key"]].append(line)
        return found

    @cached_property
    def acknowledged(self) -> dict[str, Line]:
        """Job → the first submit that was answered with it."""
        found: dict[str, Line] = {}
        for line in self.requests:
            if line["act"] == "submit" and line["status"] in (200, 202):
                found.setdefault(line["job"], line)
        return found

    @cached_property
    def book(self) -> list[Line]:
        """Lines of all books, each with the number of its book."""
        return [{**line, "book": number} for number, path in enumerate(self._books) for line in _lines(path)]

    @cached_property
    def executions(self) -> list[Line]:
        """What the upstreams took on, whatever came of it: a line each, written at its end or with the end of the book."""
        return [line for line in self.book if line["what"] == "execution"]

    @cached_property
    def executions_of(self) -> dict[str, list[Line]]:
        """Job → its executions."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.executions:
            found[job_of(line["key"])].append(line)
        return found

    @cached_property
    def received(self) -> list[Line]:
        """Requests for work, also those that were refused."""
        return [line for line in self.book if line["what"] == "request"]

    @cached_property
    def jobs(self) -> dict[str, Row]:
        """Job → its row, with the names of its tenant and type, and how its type is priced and delivered."""
        rows = self.rows("""
            SELECT j.id::text, j.tenant_id, t.name AS tenant, j.idempotency_key AS key, j.state, j.run, j.version, j.price,
                   j.charged, j.settle, j.flagged, j.cancel_requested_at, k.name AS type, k.delivery
            FROM jobs_job j JOIN tenants_tenant t ON t.id = j.tenant_id JOIN jobs_jobtype k ON k.id = j.type_id""")
        return {row["id"]: row for row in rows}

    @cached_property
    def attempts(self) -> dict[str, Row]:
        """Dispatch key → its attempt, with the name of its account and how its type is called upstream; `opened`, `called`
        (sent last) and `ended` in seconds since the epoch, as in the books.
        """
        rows = self.rows("""
            SELECT a.dispatch_key, a.id, a.job_id::text AS job, a.resource_id AS session, a.run, a.number, a.verdict,
                   a.error_code, a.reference, a.sendings, a.asked_at, a.fence, a.units, u.name AS account,
                   extract(epoch FROM a.opened_at)::float AS opened, extract(epoch FROM a.called_at)::float AS called,
                   extract(epoch FROM a.ended_at)::float AS ended, k.upstream, k.max_runtime_ms
            FROM jobs_attempt a JOIN pool_upstreamaccount u ON u.id = a.account_id
            LEFT JOIN jobs_job j ON j.id = a.job_id LEFT JOIN jobs_jobtype k ON k.id = j.type_id""")
        return {row["dispatch_key"]: row for row in rows}

    @cached_property
    def ends(self) -> dict[tuple[str, int], str]:
        """Job and run → the state in which that run ended."""
        rows = self.rows("SELECT subject_id::text AS job, to_state FROM jobs_jobmove ORDER BY id")
        found: dict[tuple[str, int], str] = {}
        runs: dict[str, int] = defaultdict(int)
        for row in rows:
            if row["to_state"] in TERMINAL:
                runs[row["job"]] += 1
                found[row["job"], runs[row["job"]]] = row["to_state"]
        return found

    @cached_property
    def said_by_operators(self) -> set[int]:
        """Attempts of which an operator said what came of them."""
        return {row["attempt_id"] for row in self.rows("SELECT attempt_id FROM jobs_evidence WHERE kind = 'operator'")}

    @cached_property
    def told_of_success(self) -> set[tuple[str, int]]:
        """Job and run of which a success was learned, whenever that was."""
        rows = self.rows(f"""
            SELECT DISTINCT a.job_id::text AS job, a.run FROM jobs_evidence e JOIN jobs_attempt a ON a.id = e.attempt_id
            WHERE e.content ->> 'verdict' IN {PROVEN}""")
        return {(row["job"], row["run"]) for row in rows}

    @cached_property
    def late(self) -> set[tuple[str, int]]:
        """Job and run whose late success is remembered, and was decided."""
        rows = self.rows("SELECT job_id::text AS job, run FROM jobs_latecompletion WHERE decided_at IS NOT NULL")
        return {(row["job"], row["run"]) for row in rows}

    def let_go_after(self, session: int, moment: float) -> float:
        """When the session was let go first after that moment; in seconds since the epoch, infinite when it was not."""
        moments = self._let_go.get(session, [])
        number = bisect_right(moments, moment)
        return moments[number] if number < len(moments) else math.inf

    @cached_property
    def _let_go(self) -> dict[int, list[float]]:
        rows = self.rows("""
            SELECT subject_id AS session, extract(epoch FROM at)::float AS at FROM pool_resourcemove
            WHERE from_state = 'busy' ORDER BY at""")
        found: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            found[row["session"]].append(row["at"])
        return found

    def rows(self, sql: str) -> list[Row]:
        """What one statement finds."""
        with self._connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(sql)
            return [dict(row) for row in cursor.fetchall()]

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def _connection(self) -> Any:
        connection = psycopg2.connect(self._database_url)
        # One snapshot for all rules: what one of them sees, the others see.
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        return connection


def job_of(dispatch_key: str) -> str:
    """The job that a dispatch key names: `job.<id>.a<number>`."""
    parts = dispatch_key.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "job" else ""


def carried_out(execution: Line) -> bool:
    """Whether it had an effect: anything but ended without success and unbilled."""
    return execution["outcome"] not in ("failed", "cancelled") or execution["billed"] > 0


def _lines(path: Path) -> list[Line]:
    """JSON lines; the last one may be cut short, when its writer was killed."""
    if not path.exists():
        return []
    texts = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(text) for number, text in enumerate(texts) if text and (number < len(texts) - 1 or _whole(text))]


def _whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
