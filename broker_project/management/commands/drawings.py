"""`manage.py drawings`: writes docs/states.md from the machines; with --check only says whether it is fresh."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.states import ATTEMPT_PHASES, JOB, PHASE_MOVES, VERDICTS
from pool.states import RESOURCE
from statemachine.machine import Machine

FILE = settings.BASE_DIR / "docs" / "states.md"


class Command(BaseCommand):
    help = "Writes docs/states.md from jobs/states.py and pool/states.py. --check exits 1 when the file is stale."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")

    def handle(self, **options: Any) -> None:
        drawn = drawing()
        if options["check"]:
            if not FILE.exists() or FILE.read_text(encoding="utf-8") != drawn:
                raise CommandError("docs/states.md is not what the states say: run `manage.py drawings` and commit it.")
            self.stdout.write("docs/states.md is fresh.")
            return
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(drawn, encoding="utf-8")
        self.stdout.write(f"Wrote {FILE}.")


def drawing() -> str:
    """The whole page."""
    parts = [
        "# States\n\nMade by `manage.py drawings` from `jobs/states.py` and `pool/states.py`: change those, not this page.",
        "## Job\n\n" + _machine(JOB),
        "## Session (resource)\n\n" + _machine(RESOURCE),
        "## Attempt\n\nA phase only grows. *Is the upstream session over?* is its end; *was it executed?* its verdict.",
        _diagram(next(iter(ATTEMPT_PHASES)), [(source, target, "") for source, target in PHASE_MOVES], ["ended"]),
        _table(("phase", "meaning"), ATTEMPT_PHASES.items()),
        _table(("verdict", "meaning"), VERDICTS.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _machine(machine: Machine) -> str:
    moves = [(source, arrow.target, arrow.verb) for arrow in machine.arrows.values() for source in arrow.sources]
    states = {
        name: state.comment + (" *(terminal)*" if state.terminal else "") for name, state in machine.states.items()
    }
    arrows = [
        (arrow.verb, f"{', '.join(arrow.sources)} → {arrow.target}", arrow.cause) for arrow in machine.arrows.values()
    ]
    return "\n\n".join(
        [
            _diagram(machine.first, moves, machine.terminal),
            _table(("state", "meaning"), states.items()),
            _table(("arrow", "from → to", "when"), arrows),
        ]
    )


def _diagram(first: str, moves: Sequence[tuple[str, str, str]], terminal: Sequence[str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {source} --> {target}{f': {verb}' if verb else ''}" for source, target, verb in moves]
    lines += [f"    {name} --> [*]" for name in terminal]
    return "\n".join([*lines, "```"])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines: list[Sequence[str]] = [heads, ["--"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
