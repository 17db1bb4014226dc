"""docs/promises.md names every rule of the audit, no other, and only tests that are there."""

import re
from pathlib import Path

from broker_project.audit import RULES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")


def test_every_rule_stands_beside_its_promise() -> None:
    named = set()
    for line in PAGE.splitlines():
        if found := re.match(r"\| (P\d+) \|", line):
            named |= {f"{found[1]}.{rule}" for rule in re.findall(r"`(\w+)`", line.split("|")[4])}
    assert named == set(RULES)


def test_every_test_named_is_there() -> None:
    assert [path for path in re.findall(r"`(tests/[\w./]+)`", PAGE) if not (ROOT / path).exists()] == []
