"""The simulator finds nothing in the product, finds what is sown into it, and does the same each time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import bugs, short

SECONDS = 300


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the short form says. In a process of its own: it sets the clock and Redis aside, and sows bugs."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "LOG_LEVEL": "CRITICAL"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulated", "--short"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_no_seed_finds_anything(told: dict[str, Any]) -> None:
    assert told["found"] == []


@pytest.mark.parametrize("name", short.BUGS)
def test_a_bug_that_is_sown_is_found(told: dict[str, Any], name: str) -> None:
    assert told["bugs"][name]


def test_a_seed_does_the_same_each_time(told: dict[str, Any]) -> None:
    first, second = told["traces"]
    assert first == second
    assert len(first.splitlines()) > 50


def test_each_bug_is_told_of() -> None:
    text = Path("docs/simulated.md").read_text(encoding="utf-8")
    assert [name for name in bugs.BUGS if f"| {name} |" not in text] == []
