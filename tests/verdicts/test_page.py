"""docs/verdicts.md says what the table says, and the table leaves out no fault of the simulator."""

from simulator.control_api import STANDING
from simulator.faults import CONVERTERS
from tests.verdicts.cells import MAX_RUNTIME
from tests.verdicts.page import FILE, page
from tests.verdicts.table import FAULTS, cells

USUAL = {"ok"}  # a duration, and nothing that goes wrong


def test_the_page_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == page(), "run `python -m tests.verdicts` and commit docs/verdicts.md"


def test_every_fault_of_the_simulator_has_a_row() -> None:
    asked = {name for fault in FAULTS for name in fault.sim}
    standing = {name for fault in FAULTS for name in fault.first.get("fault", {})}
    standing |= {"ip_429" for fault in FAULTS if fault.flooded_seconds}
    assert (set(CONVERTERS) - USUAL - asked, set(STANDING) - standing) == (set(), set())


def test_each_row_has_a_name_of_its_own() -> None:
    names = [cell.name for cell in cells()]
    assert len(set(names)) == len(names)


def test_nobody_is_charged_for_what_was_not_verified() -> None:
    assert {cell.name for cell in cells() if cell.expected.charge and cell.expected.state != "completed"} == set()


def test_what_ran_twice_had_failed_or_may_be_repeated() -> None:
    """Two effects only where the type delivers at least once, and the outcome of the first was never known."""
    again = [cell for cell in cells() if cell.expected.ran > 1]
    assert all(cell.fault.repeats for cell in again)
    assert all(cell.expected.freed == MAX_RUNTIME for cell in again if cell.expected.effects > 1)
