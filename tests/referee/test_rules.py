"""The referee is put on trial: an intact world is clean, and each rule finds what breaks it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from django.conf import settings
from django.db import connection

from tests.referee import RULES, violations
from tests.referee.breaches import OF_JOBS
from tests.referee.breaches_upstream import EXCUSES, OF_UPSTREAMS
from tests.referee.intact import Doctored
from tests.whole.commands import PROJECT

# It asks a database of its own making, beside the tables of the tests.
pytestmark = [pytest.mark.django_db, pytest.mark.tampers]
BREACHES = {**OF_JOBS, **OF_UPSTREAMS}


@pytest.fixture(scope="module")
def doctored(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doctored]:
    database = settings.DATABASES["default"]
    at = f"{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
    world = Doctored(f"postgres://{at}/{connection.settings_dict['NAME']}", tmp_path_factory.mktemp("referee"))
    yield world
    world.close()


@pytest.fixture
def world(doctored: Doctored) -> Iterator[Doctored]:
    """As it should be, and so again for the next test."""
    yield doctored
    doctored.mend()


def found(world: Doctored) -> set[str]:
    with closing(world.evidence()) as evidence:
        return {violation.rule for violation in violations(evidence)}


def test_what_is_as_it_should_be_is_not_complained_of(world: Doctored) -> None:
    assert found(world) == set()


@pytest.mark.parametrize("excuse", EXCUSES)
def test_what_has_its_reason_is_not_complained_of(world: Doctored, excuse: str) -> None:
    EXCUSES[excuse](world)
    assert found(world) == set()


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(world: Doctored, breach: str) -> None:
    rule, doctor = BREACHES[breach]
    doctor(world)
    assert rule in found(world)


def test_no_rule_is_there_that_was_never_broken(world: Doctored) -> None:
    never_tried = {rule.breaches.__name__ for rule in RULES}
    for _, doctor in BREACHES.values():
        world.mend()
        doctor(world)
        with closing(world.evidence()) as evidence:
            never_tried -= {rule.breaches.__name__ for rule in RULES if rule.breaches(evidence)}
    assert never_tried == set()


def test_the_command_prints_what_is_broken_and_says_so_by_its_exit_code(world: Doctored) -> None:
    world.change("UPDATE pool_resource SET state = 'busy' WHERE id = 1")
    world.evidence().close()
    command = [sys.executable, "-m", "tests.referee", "--log", str(world.folder / "log.jsonl")]
    command += ["--book", str(world.folder / "book.jsonl"), "--database", world.url]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "I2: not kept: After the drain no session is given to anybody" in done.stdout


def test_every_rule_says_in_a_sentence_what_it_wants() -> None:
    assert [
        rule.name
        for rule in RULES
        if ". " in (said := " ".join((rule.breaches.__doc__ or "").split())) or not said.endswith(".")
    ] == []
