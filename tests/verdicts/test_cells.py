"""Every fault × mode × means: the job's end, the charge, the executions, and what freed the session. One run for all."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.verdicts.table import Cell, cells
from tests.verdicts.world import Seen, World
from tests.whole.running import Running

pytestmark = pytest.mark.processes
ROLES = "postgres,valkey,web,worker-assign,worker-transitions,worker-upstream"
CELLS = list(cells())


@dataclass
class Ran:
    """What is known after the run."""

    seen: dict[str, Seen]
    overlaps: int
    breaches: dict[str, Any]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    home: Path = tmp_path_factory.mktemp("verdicts")
    home.parent.chmod(0o711)  # the database may run as another user, who must pass
    berth = Running(home, "--only", ROLES)
    try:
        with ExitStack() as ending:
            world = World(berth, CELLS, ending)
            seen = world.run()
            yield Ran(seen, world.upstreams.overlaps(), berth.audit_breaches())
    finally:
        assert berth.stop() == 0


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_the_cell_is_as_the_table_says(ran: Ran, cell: Cell) -> None:
    seen, freed = ran.seen[cell.name], cell.expected.freed.split("|")
    assert seen.verdict == replace(
        cell.expected, freed=next((f for f in freed if f == seen.verdict.freed), freed[0])
    ), seen.story
    assert seen.let_go_early == [], "the session was let go while the upstream still ran"


def test_no_account_was_sent_more_than_it_has_sessions(ran: Ran) -> None:
    assert ran.overlaps == 0


def test_the_audit_finds_nothing(ran: Ran) -> None:
    assert ran.breaches == {}
