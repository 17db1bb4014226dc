"""Verbs that die at gaps which a sound world under load does not come by: nothing of them stands, and the next one is whole."""

from pathlib import Path
from typing import Any

import pytest

from credits.models import Hold, HoldReview
from jobs import reopening, reviews, suspecting, transitions
from jobs.models import Job
from jobs.reviews import VERIFY_SECONDS
from jobs.transitions import REVIEW_SECONDS
from pool import transitions as sessions
from pool.models import Pool
from pool.queries import quarantine
from tests import db
from tests.dying import dies_at
from tests.jobs.keys_world import Keys, decided, key, keys, waiting
from tests.jobs.test_health_probes import quarantined
from tests.jobs.test_reviews import an_hour_passes, attention, held_after_its_end, in_doubt

__all__ = ["keys"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


def nothing_stands(folder: Path, point: str, verb: str, *arguments: Any) -> None:
    before = db.everything()
    dies_at(point, folder, verb, *arguments)
    assert db.everything() == before


def test_an_orphan_whose_reviewer_died_is_closed_by_the_next(tmp_path: Path) -> None:
    held_after_its_end("failed")
    db.let_holds_age(REVIEW_SECONDS + 61)
    dies_at("review.closed", tmp_path, "jobs.reviews.review")
    assert Hold.objects.get().status == "open"
    an_hour_passes()
    reviews.review()
    assert Hold.objects.get().status == "released"


def test_an_operator_is_asked_by_the_next_reviewer(tmp_path: Path) -> None:
    in_doubt()
    an_hour_passes(VERIFY_SECONDS + REVIEW_SECONDS)
    dies_at("review.raised", tmp_path, "jobs.reviews.review")
    assert attention() == []
    HoldReview.objects.update(due_at="2020-01-01T00:00Z")
    reviews.review()
    assert attention() == ["outcome_unknown"]


def test_a_probe_is_elected_by_the_next(tmp_path: Path) -> None:
    world = quarantined()
    lost = world.health().probe_id or 0
    nothing_stands(tmp_path, "elect.wanted", "pool.transitions.drain", [lost], "gone")
    assert sessions.drain([lost], "gone") == 1
    assert world.health().probe_id not in (None, lost)


@pytest.mark.parametrize("point", ["inquire.numbered", "inquire.assigned", "inquire.taken_up"])
def test_what_an_upstream_knows_is_taken_up_once(keys: Keys, tmp_path: Path, point: str) -> None:
    job = waiting(keys)
    keys.known["sim-acct-002", key(job, 2)] = "done"
    dies_at(point, tmp_path, "jobs.suspecting.inquire")
    job.refresh_from_db()
    assert (job.state, job.attempts, decided(job)) == ("pending", 0, "")
    db.execute("UPDATE jobs_suspicion SET look_at = clock_timestamp()")
    assert suspecting.inquire() == 1
    job.refresh_from_db()
    assert (job.state, job.attempts, decided(job)) == ("processing", 2, "found")


def open_and_repeat(pool_id: int) -> None:
    reopening.open_by_operator(Pool.objects.get(pk=pool_id), "they did not run", repeat=True)


@pytest.mark.parametrize(("point", "word"), [("reopen.ended", ""), ("reopen.decided", "operator")])
def test_the_word_of_an_operator_is_said_whole_or_not_at_all(keys: Keys, tmp_path: Path, point: str, word: str) -> None:
    job = waiting(keys)
    dies_at(point, tmp_path, f"{__name__}.open_and_repeat", job.pool_id)
    assert (quarantine.over() == [job.pool_id], decided(job)) == (word == "operator", word)
    assert reopening.reopen(job.pool_id) is (word == "operator")
    assert Job.objects.get().state == "pending"


@pytest.mark.parametrize(("point", "left"), [("reopen.given_up", "pending"), ("reopen.decided", "failed")])
def test_a_pool_is_opened_by_the_next(keys: Keys, tmp_path: Path, point: str, left: str) -> None:
    job = waiting(keys)
    db.execute("UPDATE pool_pool SET quarantined_until = clock_timestamp() - interval '2 hours'")
    db.execute("UPDATE jobs_suspicion SET asks_failed = 10")
    dies_at(point, tmp_path, "jobs.reopening.reopen", job.pool_id)
    assert Job.objects.get().state == left
    assert Pool.objects.get().quarantined_until is not None
    assert reopening.reopen(job.pool_id)
    assert (Job.objects.get().state, decided(job)) == ("failed", "nobody_knows")
    assert transitions.assign(job.pool_id) == 0
