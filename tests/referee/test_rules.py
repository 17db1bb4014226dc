"""The referee is put on trial: an intact world is clean, and each rule finds what breaks it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from django.conf import settings
from django.db import connection

from tests.referee import RULES, violations
from tests.referee.intact import (
    AGAIN,
    BOOK,
    CANCELLED,
    DONE,
    KEYS,
    LOG,
    MICRO,
    Doctored,
    changed,
    execution,
    line,
    received,
)
from tests.whole.commands import PROJECT

# It asks a database of its own making, beside the tables of the tests.
pytestmark = [pytest.mark.django_db, pytest.mark.tampers]
NOBODY = "00000000-0000-7000-8000-000000000009"


def sql(statement: str) -> Callable[[Doctored], None]:
    return lambda world: world.change(statement)


def log(*more: object, of: int = -1, **fields: object) -> Callable[[Doctored], None]:
    """Lines more in the log, or other fields of its `of`th."""

    def doctor(world: Doctored) -> None:
        world.log = [*changed(LOG, of, **fields), *more]  # type: ignore[list-item]

    return doctor


def book(*more: object, of: int = -1, **fields: object) -> Callable[[Doctored], None]:
    def doctor(world: Doctored) -> None:
        world.book = [*changed(BOOK, of, **fields), *more]  # type: ignore[list-item]

    return doctor


def both(*doctors: Callable[[Doctored], None]) -> Callable[[Doctored], None]:
    def doctor(world: Doctored) -> None:
        for each in doctors:
            each(world)

    return doctor


# What is done to the evidence, and which rule must find it; others may find it too.
BREACHES: dict[str, tuple[str, Callable[[Doctored], None]]] = {
    "an acknowledged job is gone": ("J1", sql(f"DELETE FROM jobs_job WHERE id = '{CANCELLED}'")),
    "an acknowledged job is of another key": (
        "J1",
        sql(f"UPDATE jobs_job SET idempotency_key = 'k7' WHERE id = '{DONE}'"),
    ),
    "a job that nobody asked for": ("J2", log(of=2, key="k8")),
    "one key is answered with two jobs": ("J3", log(line("submit", "ann", "k1", 202, CANCELLED, at=20))),
    "one key has two jobs": (
        "J3",
        sql(f"UPDATE jobs_job SET idempotency_key = 'k1' WHERE id = '{CANCELLED}'"),
    ),
    "a refused submit left its job": ("J4", log(of=2, status=402, job="")),
    "a hold without a job": ("J4", sql(f"UPDATE credits_hold SET job_id = '{NOBODY}' WHERE id = 2")),
    "a move that is not legal": ("J5", sql("UPDATE jobs_jobmove SET to_state = 'completed' WHERE id = 2")),
    "a completed job was moved on": (
        "J5",
        sql(
            f"INSERT INTO jobs_jobmove (id, subject_id, from_state, to_state) VALUES (99, '{DONE}', 'completed', 'failed')"
        ),
    ),
    "a move was not recorded": ("J5", sql("DELETE FROM jobs_jobmove WHERE id = 6")),
    "an end was never told": ("J5", sql("DELETE FROM webhooks_event WHERE id = 2")),
    "an end was told twice": (
        "J5",
        sql(f"INSERT INTO webhooks_event (id, type, job_id, job_run) VALUES (9, 'job.completed', '{DONE}', 1)"),
    ),
    "an end was told as another": ("J5", sql("UPDATE webhooks_event SET type = 'job.failed' WHERE id = 1")),
    "something is held for a job that ended": ("J6", sql("UPDATE credits_hold SET status = 'open' WHERE id = 2")),
    "nothing is held for a job that goes on": ("J6", sql(f"UPDATE jobs_job SET state = 'pending' WHERE id = '{DONE}'")),
    "a run was closed twice": (
        "I6",
        sql(
            "INSERT INTO credits_transfer (id, ledger, debit_id, credit_id, amount, code, hold_id)"
            f" VALUES (99, 'tenant', 3, 2, {MICRO}, 'settle', 1)"
        ),
    ),
    "a charge without delivery": ("J7", book(of=3, outcome="failed", billed=0)),
    "a charge of another price": ("J7", sql(f"UPDATE jobs_job SET charged = {MICRO + 1} WHERE id = '{DONE}'")),
    "a charge for nothing": ("J7", sql(f"UPDATE jobs_job SET charged = 1 WHERE id = '{CANCELLED}'")),
    "more captured than held": ("J8", sql(f"UPDATE credits_hold SET captured = {3 * MICRO} WHERE id = 1")),
    "charged and captured differ": ("J8", sql("UPDATE credits_hold SET captured = 5 WHERE id = 1")),
    "more given back than charged": (
        "J9",
        sql(
            "INSERT INTO credits_transfer (id, ledger, debit_id, credit_id, amount, code, reverses_id)"
            f" VALUES (99, 'tenant', 2, 3, {2 * MICRO}, 'refund', 3)"
        ),
    ),
    "what was cancelled in time was sent": ("J10", book(received(f"job.{CANCELLED}.a1", "acct-1", "failed"))),
    "a job that never ended": ("I10", sql(f"UPDATE jobs_job SET state = 'processing' WHERE id = '{AGAIN}'")),
    "an attempt whose consequences were not drawn": (
        "I10",
        sql("UPDATE jobs_attempt SET finished_at = NULL WHERE id = 1"),
    ),
    "a balance that was not booked": ("I3", sql("UPDATE credits_balance SET posted = posted + 1 WHERE account_id = 3")),
    "a run was executed twice": (
        "U1",
        both(book(of=4, outcome="done"), sql("UPDATE jobs_attempt SET run = 2 WHERE id = 2")),
    ),
    "a key was executed twice": ("U1", book(execution(9, KEYS[0], "acct-2", 20))),
    "what was not executed was": ("U1", sql("UPDATE jobs_attempt SET verdict = 'not_executed' WHERE id = 1")),
    "an account runs more than it has": ("U2", book(execution(9, "strange", "acct-1", 2))),
    "a request beyond the ceiling": ("U2", book(received(KEYS[2], "acct-1", "over_limit"))),
    "credits that went where nobody knows": (
        "U3",
        sql("INSERT INTO credits_reading (id, account_id, drift) VALUES (1, 9, 5)"),
    ),
    "what was billed is not booked": (
        "I13",
        sql(f"INSERT INTO credits_hold (id, job_id, run, attempt, status) VALUES (9, '{DONE}', 1, 1, 'released')"),
    ),
    "another account's credential": ("U4", book(received(KEYS[1], "acct-1"))),
    "an attempt without a job": ("U5", sql(f"UPDATE jobs_attempt SET job_id = '{NOBODY}' WHERE id = 2")),
    "a dispatch key of two attempts": ("U5", sql(f"UPDATE jobs_attempt SET dispatch_key = '{KEYS[0]}' WHERE id = 2")),
    "an execution that we do not know of": ("I7", book(execution(9, f"job.{CANCELLED}.a1", "acct-2", 20))),
    "an execution before its intent": ("I7", sql("UPDATE jobs_attempt SET called_at = NULL WHERE id = 1")),
    "a session that was never given back": ("I2", sql("UPDATE pool_resource SET state = 'busy' WHERE id = 1")),
    "a session that rests for ever": ("I2", sql("UPDATE pool_resource SET state = 'cooldown' WHERE id = 1")),
    "two attempts on one session": (
        "I1",
        sql("UPDATE jobs_attempt SET opened_at = '2030-01-01 00:00:02' WHERE id = 3"),
    ),
    "a fence that did not grow": ("I1", sql("UPDATE jobs_attempt SET fence = 1 WHERE id = 3")),
    "a session given out while it rested": (
        "I11",
        sql("UPDATE pool_resourcemove SET from_state = 'cooldown' WHERE id = 3"),
    ),
    "another tenant's job is shown": ("T1", log(of=6, status=200)),
    "another tenant's job is refused in other words": ("T1", log(of=7, answer={"title": "forbidden"})),
    "a wallet below its line": ("T2", sql("UPDATE credits_balance SET held = posted + 1 WHERE account_id = 3")),
    "a ledger that does not sum to nothing": (
        "T2",
        sql("UPDATE credits_account SET ledger = 'resource:1' WHERE id = 2"),
    ),
    "a version that goes back": ("T3", log(line("get", "ann", "", 200, DONE, at=20, version=3, state="completed"))),
    "one version with two states": ("T3", log(line("get", "ann", "", 200, DONE, at=20, version=4, state="failed"))),
    "not changed, and never told": ("T3", log(line("get", "ann", "", 304, NOBODY, at=20))),
    "an end that was not the end": ("I8", sql(f"UPDATE jobs_job SET state = 'failed' WHERE id = '{DONE}'")),
}


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
