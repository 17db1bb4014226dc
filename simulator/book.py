"""The book: every request received and every execution, kept in memory and, when asked, appended to a file."""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from simulator.executions import Execution
from simulator.times import now

# Counters are exact for ever; of single requests, only so many are kept in memory (the file keeps all).
MOST_REQUESTS = 200_000


@dataclass(frozen=True)
class Mark:
    """A moment from which a report may count."""

    at: float
    executions: int
    counts: Counter[str]


class Book:
    def __init__(self, path: Path | None) -> None:
        self.executions: list[Execution] = []
        self.by_id: dict[str, Execution] = {}
        self.requests: deque[tuple[float, str, str, str, str]] = deque(maxlen=MOST_REQUESTS)
        self.counts: Counter[str] = Counter()
        self.marks = [Mark(now(), 0, Counter())]
        self._file = path.open("a", encoding="utf-8") if path else None

    def request(self, account: str, kind: str, key: str, verdict: str) -> None:
        """A request for work and what became of it: accepted, repeat, or why it was refused."""
        entry = (now(), account, kind, key, verdict)
        self.requests.append(entry)
        if self._file is not None:
            _write(self._file, {"what": "request", **request_line(entry)})

    def accepted(self, execution: Execution) -> None:
        self.executions.append(execution)
        self.by_id[execution.id] = execution

    def ended(self, execution: Execution) -> None:
        if self._file is not None:
            _write(self._file, execution.line())

    def mark(self) -> int:
        """From here on reports start at nought; answers the mark's number, for `since`."""
        self.marks.append(Mark(now(), len(self.executions), self.counts.copy()))
        return len(self.marks) - 1

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Adds what still runs, so that the file misses no execution."""
        if self._file is not None:
            for execution in self.executions:
                if execution.ended_at is None:
                    _write(self._file, execution.line())
            self._file.close()


def request_line(entry: tuple[float, str, str, str, str]) -> dict[str, Any]:
    return dict(zip(("at", "account", "kind", "key", "verdict"), entry, strict=True))


def _write(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, separators=(",", ":")) + "\n")
