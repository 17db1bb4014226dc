"""A worker that lived through a restore tells of attempts that are gone, or whose numbers others have by now."""

from dataclasses import replace
from uuid import uuid4

import pytest

from jobs import results
from jobs.findings import Finding
from jobs.models import Evidence
from tests import factories

pytestmark = pytest.mark.django_db


def test_what_is_told_of_an_attempt_that_is_gone_keeps_nothing_else_from_being_learned() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    gone = replace(flight, attempt_id=flight.attempt_id + 1, row={**flight.row, "dispatch_key": f"job.{uuid4()}.a1"})
    results.learn([Finding(gone, factories.SUCCESS), Finding(flight, factories.SUCCESS)])
    assert factories.attempt_of(job).verdict == "succeeded"
    assert Evidence.objects.count() == 1


def test_nobody_gets_what_was_done_for_another_that_had_the_same_number() -> None:
    job = factories.at("assigned")
    flight = factories.dispatch(job)
    of_another = replace(flight, row={**flight.row, "dispatch_key": f"job.{uuid4()}.a1"})
    results.learn([Finding(of_another, factories.SUCCESS)])
    assert (factories.attempt_of(job).verdict, factories.session_of(job).state) == ("", "busy")
    assert not Evidence.objects.exists()
