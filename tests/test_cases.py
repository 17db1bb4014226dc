"""docs/cases.md names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|bench)/[\w/.]*)(?:::(\w+))?`", PAGE)))
NUMBERS = re.findall(r"^\| ([A-Z]+\d+) \|", PAGE, re.M)
OF_QUEUES = {"A": [*range(1, 6), *range(7, 13), *range(14, 19), 20, 21], "B": [1, 2, 3, 4, 6, 7, 8]}
OF_QUEUES |= {"E": [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12], "F": [*range(1, 7)], "H": [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13]}
OF_POOLS = [*range(1, 13), 15, 17, 33, 36, 37, 38]


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part)
def test_what_the_page_names_is_there(path: str, name: str) -> None:
    assert (ROOT / path).exists(), path
    assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {name}"


def test_each_case_has_its_row_once() -> None:
    wanted = [f"{letter}{number}" for letter, numbers in OF_QUEUES.items() for number in numbers]
    assert wanted + [f"T{number:02}" for number in OF_POOLS] == NUMBERS


def test_each_row_names_a_test_or_says_why_there_is_none() -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| [A-Z]+\d+ \|", line)]
    assert all("`tests/" in row[3] or row[3].startswith("as ") or "does not apply" in row[2] for row in rows)
