"""The names of crash points: one place each, well formed, and none that the experiments do not know."""

import io
import re
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from django.conf import settings

from broker_project.config.apply import apply_file
from statemachine import crashpoints
from tests.chaos import probed
from tests.chaos.kill_points import ELSEWHERE, EXPERIMENTS, PARTS, POINTS, SHARPEST
from tests.chaos.points import PROJECT, names, points

NAME = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")
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


def test_every_point_stands_in_the_table_of_what_is_half_done() -> None:
    table = (PROJECT / "docs/crash-points.md").read_text()
    told = set(re.findall(r"`([a-z_]+)\.\*`", table)) | {*re.findall(r"`([a-z_]+\.[a-z_]+)`", table)}
    assert [name for name in names() if not told & {name, name.partition(".")[0]}] == []
    assert f"{NUMBERS[len(ELSEWHERE)]} gaps that a sound world does not come by" in table


def test_every_point_is_tried_by_an_experiment_or_said_to_be_tried_elsewhere() -> None:
    tried = [point.name for point in POINTS]
    assert sorted([*tried, *ELSEWHERE]) == sorted(names())
    assert set(SHARPEST) <= set(tried)
    tests = (PROJECT / "tests/jobs/test_dying.py").read_text()
    assert [name for name in ELSEWHERE if f'"{name}"' not in tests] == []
    killed = [each.name.partition(" at ")[2] for each in EXPERIMENTS[:PARTS]]
    assert sorted(", ".join(killed).split(", ")) == sorted(tried)


@pytest.mark.django_db
def test_what_the_experiments_declare_can_be_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PUBLIC_URL", "http://127.0.0.1:9")
    for name, value in probed.credentials().items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "points.yaml"
    file.write_text(yaml.safe_dump(probed.config("http://127.0.0.1:9", "127.0.0.1:9")))
    assert apply_file(file, dry_run=False, prune=False, out=io.StringIO()).is_empty is False


def test_a_point_costs_nothing_and_writes_nothing_unless_armed(tmp_path: Path) -> None:
    begun = time.perf_counter_ns()
    for _ in range(10_000):
        crashpoints.crashpoint("submit.stored")
    assert (time.perf_counter_ns() - begun) / 10_000 < MOST_NANOSECONDS
    assert list(tmp_path.iterdir()) == []
