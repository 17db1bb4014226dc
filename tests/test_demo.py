"""What the demo and its make target announce is what will happen."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.demo.scenario import own_scenario, scenario_of

ROOT = Path(__file__).parents[1]
OPTIONS = argparse.Namespace(sessions=10, tenants=40, jobs=25)


def test_the_demos_own_spike_is_announced_as_it_is() -> None:
    assert own_scenario(OPTIONS).announcement == ("1,000 jobs of 40 tenants go through 10 sessions of a fake upstream")


def test_what_a_file_decides_is_counted_from_it() -> None:
    found = scenario_of(ROOT / "broker.example.yaml", OPTIONS)
    assert found.announcement == (
        "50 jobs of 2 tenants go through 3 sessions of a fake upstream."
        " Not played (mode sync on one session alone is): clip-async"
    )


def test_sessions_of_pools_without_work_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        "pools: {a: {accounts: {x: {sessions: 1}}}, b: {accounts: {y: {sessions: 7}}}}\n"
        "job_types: {one: {pool: a, upstream: {}}, two: {pool: b, sessions: 2, upstream: {}}}\n"
        "tenants: {t: {job_types: [one]}, idle: {job_types: [two]}}\n"
    )
    found = scenario_of(path, OPTIONS)
    assert found.announcement.startswith("25 jobs of 1 tenant go through 1 session of a fake upstream. Not played")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "runs 1,000 jobs on 10 sessions and reports: about a minute"),
        (["CONFIG=my.yaml"], "runs the job types of my.yaml on its sessions and reports"),
        (["ARGS=--jobs 3"], "runs a spike of jobs and reports"),
    ],
)
def test_make_promises_only_what_it_knows(arguments: list[str], said: str) -> None:
    make = shutil.which("make")
    assert make
    made = subprocess.run([make, "say-demo", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said in made.stdout
    assert ("1,000 jobs" in made.stdout) is (not arguments)
