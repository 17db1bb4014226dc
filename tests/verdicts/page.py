"""docs/verdicts.md, made from the table."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.verdicts.cells import MEANS, MODES, PRICE, UNITS, Fault, Verdict
from tests.verdicts.table import FAULTS, cells

FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "verdicts.md"
NOT_HERE: Final = "—"
HEAD: Final = f"""# Verdicts

Made by `python -m tests.verdicts` from `tests/verdicts/table.py`: change that, not this page. Each cell is a test: its job
runs on real processes against the [simulator](../simulator/README.md) ({{count}} cells, `tests/verdicts/test_cells.py`).

## The rules

Two questions are kept apart. *Is the upstream session over?* Until it is, the session is given to nobody, however the job
ends. *Was it executed?* Until that is known, nothing is repeated under another key, and nobody is charged.

- **A refusal answers both.** Nothing was executed and the session is free. 400, 404 and 422 are the job's fault: it fails.
  401, 402 and 403 are the account's, 429 and 503 nobody's: another account, or a later time, and a new key.
- **Work that was taken is asked for.** By its reference (poll), at once when the upstream calls back, and what the poll
  says counts (`confirm: false`: what it is told). A callback that is lost, late, early, doubled or out of order changes
  nothing.
- **What is unknown is found out, in this order**: a poll, where the reference is known; find, by the dispatch key; where
  the upstream deduplicates, the same key sent again, to the same session, a few times, unless its cancel was asked for. A
  key that find does not know was not executed, but not before `after` (it may be on its way), and never where the upstream
  has shown that it took the work. Refusing a repeat says nothing of the first sending.
- **What cannot be found out is waited out.** After `max_runtime` the session is over for certain, the outcome stays
  unknown: the job fails with `outcome_unknown` and is not charged, or is repeated where its type delivers at least once.
- **A wish to cancel is a wish.** Session and money follow what the upstream does.
- **Only a verified success is charged**: what the upstream says was used; all that was held where it says something absurd.

So an execution is repeated only where the earlier one is proven not to have happened, or to have failed, or where the
type delivers at least once.

## How to read a cell

    completed · 4 · 1× · poll

The job's end · what the tenant is charged · how often it ran at the upstream, by the upstream's own book · what let the first
session go. The code of a failure is the upstream's own, where it says one; without one `failed` where a 2xx said so, else
`http_` and the status. A job uses {UNITS} units at 1 credit each; {PRICE} credits are held. `1× (0)`: it ran once, and nothing
of it was carried out or billed. The session is free
"""
FREED: Final = {
    "answer": "with the answer to the submit, or to its repeat",
    "refusal": "with the refusal: nothing runs there",
    "poll": "when a poll said that the work had ended",
    "find": "when find said that the work had ended, or that there is none",
    "cancel": "when the upstream said that it cancelled the work",
    "max_runtime": "when `max_runtime` had passed",
}
MODE_HEADS: Final = {
    "sync": "The answer to the submit is the result.",
    "poll": "The answer is a reference, which is polled.",
    "callback": "The answer is a reference; the upstream calls back, and is polled then, or after a longer while.",
}
MEANS_HEADS: Final = {
    "idempotent": "the upstream deduplicates by the key",
    "find": "it does not, and can be asked for the key",
    "neither": "neither",
}


def page() -> str:
    """The whole page."""
    parts = [
        HEAD.format(count=len(list(cells()))).rstrip(),
        "\n".join(f"- *{word}* {meaning}." for word, meaning in FREED.items()),
        f"`{NOT_HERE}`: it cannot happen in this mode.",
    ]
    for mode in MODES:
        rows = [[fault.name, *map(_cell, fault.of_mode(mode) or [None] * len(MEANS))] for fault in FAULTS]
        parts += [f"## Mode {mode}", MODE_HEADS[mode], _table(["fault", *MEANS_HEADS.values()], rows)]
    does = [[fault.name, fault.does, _way(fault)] for fault in FAULTS]
    return "\n\n".join([*parts, "## The faults", _table(["fault", "what happens", "at the simulator"], does)]) + "\n"


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return NOT_HERE
    end = f"failed: `{verdict.code}`" if verdict.state == "failed" else verdict.state
    ran = f"{verdict.ran}×" + (f" ({verdict.effects})" if verdict.effects != verdict.ran else "")
    return " · ".join([end, str(verdict.charge), ran, verdict.freed.replace("|", " or ")])


def _way(fault: Fault) -> str:
    """How the simulator is made to do it."""
    parts = [f"`{json.dumps(fault.sim)}`"] if fault.sim else []
    parts += [f"first account: `{json.dumps(value)}`" for name, value in fault.first.items() if name != "unreachable"]
    if fault.flooded_seconds:
        parts.append(f'`{{"ip_429": {fault.flooded_seconds:g}}}`')
    return ", ".join([*parts, *([f"then {fault.then}"] if fault.then else [])])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines: list[Sequence[str]] = [heads, ["--"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
