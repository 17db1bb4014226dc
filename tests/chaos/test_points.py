"""The names of crash points: one place each, well formed, and none that the experiments do not know."""

import re
import time
from collections import Counter
from pathlib import Path

from statemachine import crashpoints
from tests.chaos.points import names, points

NAME = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
MOST_NANOSECONDS = 2_000  # of one passing; it takes some 50, and a busy machine is patient with nobody


def test_every_point_has_a_name_of_verb_and_gap() -> None:
    assert [point for point in points() if not NAME.fullmatch(point.name)] == []


def test_every_name_stands_in_one_place() -> None:
    assert [name for name, number in Counter(names()).items() if number > 1] == []


def test_every_gap_of_the_flow_has_its_point() -> None:
    verbs = {name.partition(".")[0] for name in names()}
    assert verbs >= {
        *("submit", "enter", "promote", "assign", "dispatch", "verify", "learn", "finish", "release", "publish"),
        *("cancel", "abandon", "doubt", "give_up", "replay", "come_due", "book_late", "review", "decide", "sweep"),
        *("fetch", "result", "file", "clean", "balance", "checkpoint", "apply", "prepare"),
    }


def test_a_point_costs_nothing_and_writes_nothing_unless_armed(tmp_path: Path) -> None:
    begun = time.perf_counter_ns()
    for _ in range(10_000):
        crashpoints.crashpoint("submit.stored")
    assert (time.perf_counter_ns() - begun) / 10_000 < MOST_NANOSECONDS
    assert list(tmp_path.iterdir()) == []
