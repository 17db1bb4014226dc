"""`manage.py doctor`: every check is made whatever the others do, and said plainly, without a secret."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from broker_project.doctor import examination
from broker_project.doctor.findings import Check, Finding, error, ok
from broker_project.doctor.table import CHECKS

LONGEST_SECONDS = 6.0


def levels(*checks: Check) -> dict[str, str]:
    return {result.name: result.finding.level for result in examination.examine(checks)}


def fail() -> Finding:
    raise ZeroDivisionError("no such number\nand more")


def test_a_check_that_fails_is_an_error_and_the_others_go_on() -> None:
    first, second = examination.examine([Check("broken", fail), Check("sound", lambda: ok("well"))])
    assert first.finding == error(
        "could not be looked at: ZeroDivisionError: no such number", "the reason says what is missing"
    )
    assert (second.name, second.finding) == ("sound", ok("well"))


def test_a_check_that_hangs_is_an_error_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "LONGEST_SECONDS", 1.0)
    let_go, ended = threading.Event(), []

    def hang() -> Finding:
        let_go.wait(60)
        ended.append("hangs")
        return ok("late")

    assert levels(Check("hangs", hang), Check("sound", lambda: ok("well"))) == {"hangs": "error", "sound": "ok"}
    assert not ended, "nobody waited for it"
    let_go.set()


def test_what_makes_no_sense_without_another_is_skipped_with_all_that_needs_it() -> None:
    assert levels(
        Check("database", lambda: error("away", "start it")),
        Check("schema", fail, ("database",)),
        Check("rows", fail, ("schema",)),
        Check("disk", lambda: ok("free")),
    ) == {"database": "error", "schema": "skipped", "rows": "skipped", "disk": "ok"}


def test_no_secret_is_said() -> None:
    def tell() -> Finding:
        raise RuntimeError(f"cannot use {settings.DATABASE_URL} with {settings.SECRET_KEY}")

    (result,) = examination.examine([Check("tells", tell)])
    assert settings.SECRET_KEY not in result.finding.found
    assert settings.DATABASES["default"]["PASSWORD"] not in result.finding.found


def test_every_need_is_the_name_of_a_check_above() -> None:
    above: set[str] = set()
    for check in CHECKS:
        assert check.name not in above
        assert set(check.needs) <= above
        above.add(check.name)


@pytest.mark.django_db(transaction=True)
def test_it_tells_of_every_check_and_ends_with_an_error_where_one_was_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No process of Berth runs beside the tests, so at least that is an error."""
    with pytest.raises(CommandError, match=f"of {len(CHECKS)} checks found an error"):
        call_command("doctor")
    lines = capsys.readouterr().out.splitlines()
    told = [line.split()[1] for line in lines[:-1] if not line.startswith(" ")]
    assert told == [check.name for check in CHECKS]
    assert "error    processes" in "\n".join(lines)
    with pytest.raises(CommandError):
        call_command("doctor", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in found["checks"]] == told
    assert found["errors"] == sum(check["level"] == "error" for check in found["checks"]) > 0
    assert found["warnings"] == sum(check["level"] == "warning" for check in found["checks"])
    assert set(found["checks"][0]) == {"name", "level", "found", "advice", "ms"}
    assert not [check for check in found["checks"] if "could not be looked at" in check["found"]]


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(10)
        yield int(listening.getsockname()[1])


def doctor(port: int) -> tuple[str, str, float]:
    """Its first line, the rest, and the seconds until the first, with a database said to be at that port."""
    address = f"postgres://berth:c4n4ryc4n4ry@127.0.0.1:{port}/berth"
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "manage.py", "doctor"],
        cwd=settings.BASE_DIR,
        env={**os.environ, "DATABASE_URL": address, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        told = time.monotonic() - began
        rest = process.stdout.read()
    assert process.returncode == 1
    assert "c4n4ry" not in line + rest
    return line, rest, told


@pytest.mark.processes
def test_a_database_that_does_not_answer_is_told_within_seconds(deaf: int) -> None:
    """Also one that takes the connection and says nothing; and its password is not told."""
    seconds = []
    for port, words in ((1, "Connection refused"), (deaf, "the database did not answer within 3 s")):
        line, rest, told = doctor(port)
        assert line == f"error    database           127.0.0.1:{port}/berth does not answer: {words}\n"
        assert "skipped  migrations" in rest
        assert "ok       redis " in rest
        seconds.append(told)
    at_once, waited = seconds  # the first is the start of the command, which takes its time on a busy machine
    assert waited < 2 * at_once + LONGEST_SECONDS
