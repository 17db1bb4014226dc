"""The report: what the clients saw, what the simulator's book says, and what the audit found."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.demo.spike import Outcome
from bench.demo.world import World


@dataclass(frozen=True)
class Report:
    """The figures of one run; `ok` is whether every promise that the demo can see was kept."""

    outcome: Outcome
    simulator: dict[str, Any]
    audit: dict[str, Any]

    @property
    def ok(self) -> bool:
        """All completed, nothing shared, nothing twice, nothing wrong in the books."""
        completed = self.outcome.states["completed"]
        return (
            completed == self.outcome.submitted > 0
            and not self.simulator["overlaps"]
            and not self.simulator["double_executions"]
            and not self.audit["breaches"]
        )

    def as_json(self) -> dict[str, Any]:
        """What `demo-report.json` holds. Times in milliseconds; utilisation while jobs were waiting, 0 to 1."""
        waits = sorted(self.outcome.waits_ms)
        return {
            "submitted": self.outcome.submitted,
            "completed": self.outcome.states["completed"],
            "states": dict(self.outcome.states),
            "overlaps": self.simulator["overlaps"],
            "double_executions": self.simulator["double_executions"],
            "utilisation": self.simulator["utilisation"],
            "handoff_ms": {name: self.simulator["handoff_ms"][name] for name in ("p50", "p99")},
            "wait_ms": {f"p{percent}": _percentile(waits, percent) for percent in (50, 95, 99)},
            "audit_breaches": self.audit["breaches"],
            "sessions": self.simulator["sessions"],
            "submit_seconds": round(self.outcome.submit_seconds, 2),
            "seconds": round(self.outcome.seconds, 2),
        }


def make(world: World, outcome: Outcome) -> Report:
    """Asks the simulator and the audit; the audit runs while the system is up."""
    return Report(outcome, world.simulator_report(), world.audit())


def show(report: Report, console: Console) -> None:
    """The report as a table, with a tick or a cross where something was promised."""
    figures = report.as_json()
    table = Table(title="Report", show_header=False, title_justify="left")
    utilisation = figures["utilisation"]
    rows = [
        (
            "jobs accepted / completed",
            f"{figures['submitted']} / {figures['completed']}",
            figures["submitted"] == figures["completed"],
        ),
        ("sessions shared by two jobs", str(figures["overlaps"]), not figures["overlaps"]),
        ("jobs executed twice", str(figures["double_executions"]), not figures["double_executions"]),
        ("breaches found by the audit", str(figures["audit_breaches"]), not figures["audit_breaches"]),
        ("sessions busy while jobs waited", "–" if utilisation is None else f"{utilisation:.1%}", None),
        (
            "hand-off on a session, p50 / p99",
            f"{figures['handoff_ms']['p50']} / {figures['handoff_ms']['p99']} ms",
            None,
        ),
        (
            "wait for the start, p50 / p95 / p99",
            " / ".join(str(ms) for ms in figures["wait_ms"].values()) + " ms",
            None,
        ),
        ("seconds to accept all / to end all", f"{figures['submit_seconds']} / {figures['seconds']}", None),
    ]
    for name, value, kept in rows:
        table.add_row(name, value, {True: "[green]✓[/green]", False: "[red]✗[/red]", None: ""}[kept])
    console.print(table)
    for name, rule in report.audit["rules"].items():
        if rule["count"]:
            console.print(f"[red]{name}[/red]: {rule['rows'][:5]}", highlight=False)


def _percentile(ordered: list[float], percent: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 1)
