"""What an operator reads of jobs: each line once, after its commit, with the job it is about."""

import logging
from typing import Any

import pytest
from django.db import transaction

from jobs import transitions
from jobs.findings import Finding
from tests import db, factories

pytestmark = pytest.mark.django_db(transaction=True)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """Level, words and job of each line of the journal."""
    lines: list[Any] = [record for record in caplog.records if record.name == "jobs.journal"]
    return [(line.levelname, line.getMessage(), line.job) for line in lines]


def test_a_job_that_failed_for_good_is_told_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    job = factories.at("failed")
    assert told(caplog) == [("WARNING", "job failed for good: bad_prompt", str(job.pk))]
    (line,) = (vars(record) for record in caplog.records if record.name == "jobs.journal")
    assert (line["attempt"], line["tenant"]) == (factories.attempt_of(job).pk, job.tenant.name)
    assert (line["pool"], line["code"]) == (job.pool.name, "bad_prompt")


def test_one_that_never_started_in_time_is_told(caplog: pytest.LogCaptureFixture) -> None:
    job = factories.at("pending", start_deadline_ms=1_000)
    db.let_time_pass(2)
    transitions.expire([job.pk])
    transitions.expire([job.pk])
    assert told(caplog) == [("WARNING", "job failed for good: expired", str(job.pk))]


def test_an_unknown_outcome_is_told_by_its_call_and_by_a_lost_worker(caplog: pytest.LogCaptureFixture) -> None:
    cut, lost = factories.at("assigned"), factories.at("assigned")
    factories.learn(factories.dispatch(cut), factories.CUT)
    factories.dispatch(lost)
    db.let_time_pass(20)
    transitions.doubt([lost.pk])
    assert told(caplog) == [
        ("WARNING", "outcome unknown, to be found out: connection_lost", str(cut.pk)),
        ("WARNING", "outcome unknown, to be found out: worker_lost", str(lost.pk)),
    ]


def test_what_was_undone_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    flight = factories.dispatch(factories.at("assigned"))

    def learn_and_fail() -> None:
        with transaction.atomic():
            transitions.learn([Finding(flight, factories.CUT)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn_and_fail()
    assert told(caplog) == []


def test_usage_that_makes_no_sense_or_is_above_the_hold_is_told(caplog: pytest.LogCaptureFixture) -> None:
    absurd = factories.at("assigned", factories.make_job_type(settle="1 / 0"))
    factories.end(absurd, factories.SUCCESS)
    above = factories.at("assigned", factories.make_job_type(price="1"))
    factories.end(above, factories.SUCCESS)
    (first, second) = told(caplog)
    assert first[:1] + first[2:] == ("WARNING", str(absurd.pk))
    assert first[1].startswith("job flagged: settle: ")
    assert second == ("WARNING", "job flagged: usage above the hold, absorb: 2", str(above.pk))


def test_a_retry_is_told_only_to_who_asks_for_it(caplog: pytest.LogCaptureFixture) -> None:
    factories.at("backing_off")
    assert told(caplog) == []
    with caplog.at_level(logging.DEBUG, "jobs.journal"):
        job = factories.at("backing_off")
    assert [(level, job_id) for level, _, job_id in told(caplog)] == [("DEBUG", str(job.pk))]
