"""What was sent under one `max_runtime` keeps its session for that long, whatever its type says by now."""

import pytest

from jobs import asking, transitions
from jobs.models import Job, JobType
from jobs.queries.under_way import under_way
from tests import db, factories
from tests.factories import HOLDER, session_of
from tests.jobs.test_unknown import LEASE_SECONDS, OVER_SECONDS, flying, occupied, verify_until_sent

pytestmark = pytest.mark.django_db
ROOM_SECONDS = 10  # which a slow machine may take


def now_at_most(job: Job, runtime_ms: int) -> None:
    """What `apply` makes of its type while it runs."""
    JobType.objects.filter(pk=job.type_id).update(max_runtime_ms=runtime_ms)


def test_a_runtime_that_is_lowered_does_not_end_what_was_sent_under_the_longer_one() -> None:
    job, _ = flying(idempotent=False)
    now_at_most(job, 5_000)
    db.let_time_pass(OVER_SECONDS - ROOM_SECONDS)
    assert transitions.doubt([job.pk]) == 1
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    shown = under_way([job.pk])[job.pk]
    assert (shown.row["ends_at"] - shown.row["called_at"]).total_seconds() == OVER_SECONDS, "pages promise the same"
    db.let_time_pass(ROOM_SECONDS + 1)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"


def test_of_what_is_sent_again_the_longest_that_it_was_sent_under_counts_from_the_last() -> None:
    job, flight = flying(idempotent=True, retry={"attempts": 1})
    now_at_most(job, 90_000)
    factories.learn(flight, factories.CUT)
    flight = verify_until_sent(job)
    now_at_most(job, 5_000)
    factories.learn(flight, factories.CUT)
    db.let_time_pass(90 + LEASE_SECONDS - ROOM_SECONDS)
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    db.let_time_pass(ROOM_SECONDS + 1)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"


def test_what_was_called_before_attempts_kept_it_goes_by_its_type() -> None:
    job, flight = flying(idempotent=False)
    factories.learn(flight, factories.CUT)
    db.execute("UPDATE jobs_attempt SET over_ms = NULL")
    now_at_most(job, 80_000)
    db.let_time_pass(OVER_SECONDS + 1)
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    db.let_time_pass(20)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"
