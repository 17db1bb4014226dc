"""One batch tells of two sendings of one attempt: the one whose fence stands ends it, the other may bring what is late."""

import pytest

from jobs import asking, late, transitions
from jobs.findings import Finding
from jobs.models import Job, LateCompletion
from tests import db, factories
from tests.factories import HOLDER
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
FAILED = Outcome(over=True, verdict="failed", status=200, error_code="nsfw", error_message="no")


@pytest.mark.parametrize("stale_last", [True, False])
def test_the_session_is_let_go_and_no_success_is_forgotten(stale_last: bool) -> None:
    job = factories.at("assigned", factories.make_job_type(idempotent=True, retry={"attempts": 1}))
    first = factories.dispatch(job)
    db.let_time_pass(16)
    transitions.doubt([job.pk])
    (second,) = asking.verify([job.pk], HOLDER)
    findings = [Finding(second, FAILED), Finding(first, factories.SUCCESS)]
    transitions.learn(findings if stale_last else findings[::-1])
    assert factories.attempt_of(job).verdict == "failed"
    assert factories.session_of(job).state == "available"
    transitions.finish([job.pk])
    assert Job.objects.get().state == "failed"
    assert LateCompletion.objects.count() == 1
    assert late.book([job.pk]) == 1
