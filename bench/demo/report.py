"""The report: what the clients saw, what the simulator's book says, and what the audit found."""

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.demo.clients import Outcome
from bench.demo.faults import Faults


@dataclass(frozen=True)
class Report:
    """The figures of one run; `ok` is whether every promise that the demo can see was kept."""

    outcome: Outcome
    simulator: dict[str, Any]
    audit: dict[str, Any]
    servers: dict[str, str]
    faults: Faults
    seed: int

    @property
    def ok(self) -> bool:
        """All ended, and completed; nothing shared, nothing twice, nothing wrong in the books, no fault left out."""
        return all(kept for _, _, kept in _rows(self) if kept is not None)

    def as_json(self) -> dict[str, Any]:
        """What `demo-report.json` holds. Times in milliseconds; utilisation while jobs were waiting, 0 to 1."""
        waits = sorted(_milliseconds(job["created_at"], job["started_at"]) for job in self.outcome.started)
        return {
            "submitted": self.outcome.submitted,
            "completed": self.outcome.states["completed"],
            "ended": self.outcome.ended,
            "states": dict(self.outcome.states),
            "errors": dict(self.outcome.errors),
            "refused": dict(self.outcome.refused),
            "asked_again": dict(self.outcome.answers),
            "unasked_jobs": self.outcome.unasked,
            "overlaps": self.simulator["overlaps"],
            "double_executions": self.simulator["double_executions"],
            "repeats": self.simulator["repeats"],
            "utilisation": self.simulator["utilisation"],
            "handoff_ms": {name: self.simulator["handoff_ms"][name] for name in ("p50", "p99")},
            "wait_ms": {f"p{percent}": _percentile(waits, percent) for percent in (50, 95, 99)},
            "audit_breaches": self.audit["breaches"],
            "sessions": self.simulator["sessions"],
            "submit_seconds": round(self.outcome.submit_seconds, 2),
            "seconds": round(self.outcome.seconds, 2),
            "servers": self.servers,
            "seed": self.seed,
            "kills": [asdict(kill) for kill in self.faults.kills],
        }


def show(report: Report, console: Console) -> None:
    """The report as a table, with a tick or a cross where something was promised."""
    table = Table(title="Report", show_header=False, title_justify="left")
    for name, value, kept in _rows(report):
        table.add_row(name, value, {True: "[green]✓[/green]", False: "[red]✗[/red]", None: ""}[kept])
    console.print(table)
    for refusal, jobs in report.outcome.refused.items():
        console.print(f"[red]{jobs} jobs were refused[/red]: {escape(refusal)}", highlight=False)
    for code, jobs in report.outcome.errors.items():
        console.print(f"[red]{jobs} jobs did not complete[/red]: {escape(code)}", highlight=False)
    for name, rule in report.audit["rules"].items():
        if rule["count"]:
            console.print(f"[red]{name}[/red]: {rule['rows'][:5]}", highlight=False)


def _rows(report: Report) -> list[tuple[str, str, bool | None]]:
    """Name, value, and whether what was promised was kept; None where nothing was."""
    figures, outcome = report.as_json(), report.outcome
    utilisation = figures["utilisation"]
    submitted = outcome.submitted
    return [
        ("jobs accepted / ended", f"{submitted} / {outcome.ended}", submitted == outcome.ended > 0),
        ("jobs completed", str(figures["completed"]), submitted == figures["completed"] and not outcome.refused),
        ("sessions shared by two jobs", str(figures["overlaps"]), not figures["overlaps"]),
        ("jobs executed twice", str(figures["double_executions"]), not figures["double_executions"]),
        ("submits that became two jobs", str(outcome.unasked), not outcome.unasked),
        ("breaches found by the audit", str(figures["audit_breaches"]), not figures["audit_breaches"]),
        *_kill_rows(report),
        ("sessions busy while jobs waited", "–" if utilisation is None else f"{utilisation:.1%}", None),
        ("hand-off on a session, p50 / p99", " / ".join(map(str, figures["handoff_ms"].values())) + " ms", None),
        ("wait for the start, p50 / p95 / p99", " / ".join(map(str, figures["wait_ms"].values())) + " ms", None),
        ("seconds to accept all / to end all", f"{figures['submit_seconds']} / {figures['seconds']}", None),
        *((name, value, None) for name, value in figures["servers"].items()),
    ]


def _kill_rows(report: Report) -> list[tuple[str, str, bool | None]]:
    """Nothing where no faults were asked for."""
    if not report.faults.wanted:
        return []
    kills = report.faults.kills
    whom = ", ".join(f"{role} {count}" for role, count in sorted(Counter(kill.role for kill in kills).items()))
    asked_again = ", ".join(f"{why} {count}" for why, count in sorted(report.outcome.answers.items())) or "0"
    return [
        (f"kill -9, with --seed {report.seed}", f"{len(kills)}: {whom}", len(kills) == report.faults.wanted),
        ("requests asked again", asked_again, None),
    ]


def _percentile(ordered: list[float], percent: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 1)


def _milliseconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000
