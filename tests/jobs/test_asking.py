"""What runs at the upstream is asked for: polled, found, sent again or waited out; nobody waits for it meanwhile."""

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from credits.models import Hold
from jobs import asking, transitions
from jobs.flight import Flight
from jobs.models import Evidence, Job, JobType
from pool.models import Pool, UpstreamAccount
from tests import db, factories
from tests.factories import HOLDER, attempt_of, session_of
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
EVERY = {"every": "2s", "path": "'/tasks/' + reference", "success": "true"}
FIND = {"path": "'/find?key=' + dispatch_key", "after": "5s"}
MAX_RUNTIME_SECONDS = 600
OVER_SECONDS = MAX_RUNTIME_SECONDS + 15  # within its lease it may still have been sent

TAKEN = Outcome(over=False, verdict="", status=202, reference="task-1")
RUNNING = Outcome(over=False, verdict="", status=200, progress=0.5)
DONE = Outcome(over=True, verdict="succeeded", status=200, units=3.0, result={"url": "made"})
BROKE = Outcome(over=True, verdict="failed", status=200, error_code="nsfw")
NOBODY_KNOWS = Outcome(over=False, verdict="unknown", status=404, error_code="http_404")
TOO_MANY = Outcome(over=False, verdict="unknown", error_class="busy", status=429, retry_after_ms=20_000)
MISSING = Outcome(over=True, verdict="not_executed", status=404, error_code="missing")
STOPPED = Outcome(over=True, verdict="failed", status=200, error_code="cancelled")
WISH_TAKEN = Outcome(over=False, verdict="", status=202)


def poll_type(pool: Pool | None = None, *, idempotent: bool = False, **blocks: Any) -> JobType:
    submit = {"path": "'/tasks'", "reference": "response.body.id", "idempotent": idempotent}
    upstream = {"mode": "poll", "submit": submit, "poll": EVERY, **blocks}
    declared = {name: block for name, block in upstream.items() if block}
    return factories.make_job_type(pool, upstream=declared, max_runtime_ms=MAX_RUNTIME_SECONDS * 1_000)


def sent(job_type: JobType) -> tuple[Job, Flight]:
    """A job whose call is on its way."""
    job = factories.at("assigned", job_type)
    return job, factories.dispatch(job)


def accepted(job_type: JobType | None = None) -> Job:
    """A job that the upstream has under a name of its own."""
    job, flight = sent(job_type or poll_type())
    factories.learn(flight, TAKEN)
    return job


def ask(job: Job, after_seconds: float = 2) -> Flight:
    """The next asking, when it is due."""
    db.let_time_pass(after_seconds)
    (flight,) = asking.verify([job.pk], HOLDER)
    return flight


def finished(job: Job) -> Job:
    transitions.finish([job.pk])
    job.refresh_from_db()
    return job


def test_accepted_work_keeps_its_session_and_needs_no_worker() -> None:
    job = accepted()
    attempt = attempt_of(job)
    assert (attempt.phase, attempt.verdict, attempt.reference, attempt.lease_until) == ("accepted", "", "task-1", None)
    assert session_of(job).state == "busy"
    assert asking.verify([job.pk], HOLDER) == [], "it is not due yet"
    assert finished(job).state == "processing"


def test_it_is_polled_in_its_time_by_one_asker() -> None:
    job = accepted()
    flight = ask(job)
    assert (flight.action, flight.row["reference"]) == ("poll", "task-1")
    assert asking.verify([job.pk], HOLDER) == [], "who asks is given time"
    assert ask(job, 12).action == "poll", "whoever asked is lost; another asks"


def test_it_runs_on_as_long_as_the_upstream_says_so_and_is_told_how_far_it_is() -> None:
    job = accepted()
    for _ in range(3):
        factories.learn(ask(job), RUNNING)
    attempt = attempt_of(job)
    assert (attempt.phase, attempt.verdict, attempt.progress, attempt.asks_failed) == ("accepted", "", 0.5, 0)
    assert list(Evidence.objects.filter(attempt=attempt).values_list("kind", flat=True)) == ["answer"]


@pytest.mark.parametrize(("outcome", "state", "charged"), [(DONE, "completed", 3_000_000), (BROKE, "failed", 0)])
def test_its_end_frees_the_session_and_decides_the_job(outcome: Outcome, state: str, charged: int) -> None:
    job = accepted()
    factories.learn(ask(job), outcome)
    assert session_of(job).state == "available"
    job = finished(job)
    assert (job.state, job.charged, job.tries) == (state, charged, 1)
    assert Hold.objects.get(job_id=job.pk).status == ("captured" if charged else "released")


def test_an_answer_that_says_nothing_is_asked_again_later_and_later() -> None:
    job = accepted()
    for failed in range(1, 5):
        asked = ask(job, 40)
        before = db.value("SELECT clock_timestamp()")
        factories.learn(asked, NOBODY_KNOWS)
        attempt = attempt_of(job)
        assert (attempt.verdict, attempt.asks_failed, attempt.phase) == ("unknown", failed, "accepted")
        assert attempt.look_at is not None
        assert before <= attempt.look_at - timedelta(seconds=2**failed) <= db.value("SELECT clock_timestamp()")
    factories.learn(ask(job, 40), RUNNING)
    assert (attempt_of(job).verdict, attempt_of(job).asks_failed) == ("", 0)


def test_what_nobody_knows_after_max_runtime_is_asked_once_more_and_stays_unknown() -> None:
    job = accepted()
    factories.learn(ask(job), NOBODY_KNOWS)
    assert session_of(job).state == "busy"
    factories.learn(ask(job, OVER_SECONDS), NOBODY_KNOWS)
    db.let_time_pass(OVER_SECONDS)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"
    job = finished(job)
    assert (job.state, job.error["code"], job.charged) == ("failed", "outcome_unknown", 0)  # type: ignore[index]


def test_however_long_its_pauses_it_is_asked_when_max_runtime_has_passed_and_each_hour_then() -> None:
    job = accepted(poll_type(poll={**EVERY, "every": "3h"}))

    def next_look_seconds() -> float:
        return db.value("SELECT extract(epoch FROM look_at - clock_timestamp())::float FROM jobs_attempt")

    assert next_look_seconds() == pytest.approx(OVER_SECONDS, abs=10)
    for _ in range(3):
        factories.learn(ask(job, 3_600), RUNNING)
        assert next_look_seconds() == pytest.approx(3_600, abs=10)
    factories.learn(ask(job, 3_600), NOBODY_KNOWS)
    assert next_look_seconds() == pytest.approx(3_600, abs=10)


def test_our_patience_does_not_end_what_the_upstream_says_is_running() -> None:
    job = accepted()
    for _ in range(3):
        factories.learn(ask(job, MAX_RUNTIME_SECONDS), RUNNING)
        assert session_of(job).state == "busy"
    factories.learn(ask(job), DONE)
    assert finished(job).state == "completed"


def test_a_lost_answer_is_found_by_its_dispatch_key() -> None:
    job, flight = sent(poll_type(find=FIND))
    factories.learn(flight, factories.CUT)
    assert attempt_of(job).verdict == "unknown"
    found = ask(job)
    assert (found.action, found.row["dispatch_key"]) == ("find", flight.row["dispatch_key"])
    factories.learn(found, TAKEN)
    attempt = attempt_of(job)
    assert (attempt.phase, attempt.verdict, attempt.reference, attempt.sendings) == ("accepted", "", "task-1", 1)
    assert ask(job).action == "poll"


def test_what_a_dead_worker_sent_is_found() -> None:
    job, _ = sent(poll_type(find=FIND, poll=None))
    db.let_time_pass(30)
    assert transitions.doubt([job.pk]) == 1
    factories.learn(ask(job, 0), DONE)
    job = finished(job)
    assert (job.state, job.attempts, job.crashes) == ("completed", 1, 1)


def test_that_there_is_no_such_key_is_not_believed_as_long_as_it_may_be_on_its_way() -> None:
    job, flight = sent(poll_type(find=FIND))
    factories.learn(flight, factories.CUT)
    factories.learn(ask(job, 2), MISSING)
    assert (attempt_of(job).verdict, attempt_of(job).error_code) == ("unknown", "missing_early")
    assert session_of(job).state == "busy"
    factories.learn(ask(job, 5), MISSING)
    assert session_of(job).state == "available"
    job = finished(job)
    assert (job.state, job.tries) == ("pending", 1), "not executed: safe to repeat under a new key"


def test_work_that_was_taken_is_not_given_up_because_its_key_is_forgotten() -> None:
    job = accepted(poll_type(find=FIND))
    factories.learn(ask(job), NOBODY_KNOWS)
    find = ask(job, 10)
    assert find.action == "find"
    factories.learn(find, MISSING)
    assert (attempt_of(job).verdict, attempt_of(job).error_code) == ("unknown", "missing")
    assert session_of(job).state == "busy"


def test_an_old_find_does_not_gainsay_what_a_newer_one_found() -> None:
    job, flight = sent(poll_type(find=FIND))
    factories.learn(flight, factories.CUT)
    old, newer = ask(job, 10), ask(job, 12)
    factories.learn(newer, TAKEN)
    factories.learn(old, MISSING)
    assert (attempt_of(job).ended_at, session_of(job).state) == (None, "busy")


def test_work_that_nobody_wants_any_more_is_not_sent_again() -> None:
    job, flight = sent(poll_type(idempotent=True))
    factories.learn(flight, factories.CUT)
    transitions.cancel(job.pk)
    db.let_time_pass(60)
    assert asking.verify([job.pk], HOLDER) == []
    assert attempt_of(job).sendings == 1


def test_a_budget_that_is_too_small_is_shared() -> None:
    pool = factories.make_pool(sessions=4, upstream={"adapter": "http", "poll_rate": [60, 60_000]})
    job_type = poll_type(pool)
    ids = [accepted(job_type).pk for _ in range(4)]
    asked: Counter[UUID] = Counter()
    for _ in range(24):
        db.let_time_pass(1)
        for flight in asking.verify(ids, HOLDER):
            asked[flight.job_id] += 1
            factories.learn(flight, RUNNING)
    assert min(asked[job_id] for job_id in ids) >= 4, asked


def test_where_finding_fails_the_same_key_is_sent_again() -> None:
    job, flight = sent(poll_type(idempotent=True, find=FIND))
    factories.learn(flight, factories.CUT)
    for _ in range(3):
        flight = ask(job, 40)
        assert flight.action == "find"
        factories.learn(flight, NOBODY_KNOWS)
    again = ask(job, 40)
    assert (again.action, again.repeat, attempt_of(job).sendings) == ("submit", True, 2)
    factories.learn(again, TAKEN)
    assert attempt_of(job).reference == "task-1"


def test_a_task_that_cannot_be_polled_any_more_is_looked_for_by_its_key() -> None:
    job = accepted(poll_type(find=FIND))
    factories.learn(ask(job), NOBODY_KNOWS)
    assert ask(job, 10).action == "find"


def test_accepted_work_is_not_sent_again() -> None:
    job = accepted(poll_type(idempotent=True))
    for _ in range(4):
        flight = ask(job, 50)
        assert flight.action == "poll"
        factories.learn(flight, NOBODY_KNOWS)
    assert attempt_of(job).sendings == 1


def test_an_account_is_asked_no_more_than_its_budget_allows() -> None:
    pool = factories.make_pool(sessions=5, upstream={"adapter": "http", "poll_rate": [60, 60_000]})
    job_type = poll_type(pool)
    jobs = [accepted(job_type) for _ in range(5)]
    ids = [job.pk for job in jobs]
    db.let_time_pass(3)
    asked = [len(asking.verify(ids, HOLDER))]
    for _ in range(2):
        db.let_time_pass(1)
        asked.append(len(asking.verify(ids, HOLDER)))
    assert asked == [2, 1, 1], "a second's worth ahead, then one each second"


def test_an_account_that_answers_too_many_is_left_in_peace() -> None:
    job_type = poll_type(factories.make_pool(sessions=2))
    first, second = accepted(job_type), accepted(job_type)
    db.let_time_pass(3)
    (flight,) = asking.verify([first.pk], HOLDER)
    factories.learn(flight, TOO_MANY)
    assert asking.verify([second.pk], HOLDER) == []
    db.let_time_pass(15)
    assert asking.verify([first.pk, second.pk], HOLDER) == []
    db.let_time_pass(10)
    assert len(asking.verify([first.pk, second.pk], HOLDER)) == 2
    assert UpstreamAccount.objects.filter(ask_after__isnull=False).count() == 1
