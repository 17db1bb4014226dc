"""Did it happen? What is unknown is found out or waited out, never repeated blindly; who comes late changes nothing."""

from typing import Any

import pytest

from credits.models import Hold
from jobs import asking, transitions
from jobs.flight import Flight
from jobs.models import Evidence, Job
from tests import db, factories
from tests.factories import HOLDER, attempt_of, money, session_of
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
LEASE_SECONDS = 15
OVER_SECONDS = 60 + LEASE_SECONDS  # max_runtime, from the last moment at which it may have been sent
SENDINGS = 4  # of one key: the first, and as many again as the policy has attempts (3)


def flying(*, idempotent: bool, **fields: Any) -> tuple[Job, Flight]:
    """A job whose call is on its way."""
    job = factories.at("assigned", factories.make_job_type(idempotent=idempotent, **fields))
    return job, factories.dispatch(job)


def verify_until_sent(job: Job) -> Flight:
    """Waits out the pause before the next sending."""
    for _ in range(10):
        db.let_time_pass(2)
        if flights := asking.verify([job.pk], HOLDER):
            return flights[0]
    raise AssertionError(f"job {job.pk} was not sent again")


def test_the_same_key_is_sent_when_max_runtime_has_passed_however_long_the_pauses_of_its_retry_are() -> None:
    hours = 6 * 3_600_000
    job, flight = flying(idempotent=True, retry={"attempts": 3, "first_ms": hours * 100, "max_ms": hours * 100})
    factories.learn(flight, factories.CUT)
    attempt = attempt_of(job)
    assert attempt.look_at is not None
    assert attempt.called_at is not None
    assert (attempt.look_at - attempt.called_at).total_seconds() <= OVER_SECONDS
    db.let_time_pass(OVER_SECONDS)
    assert [again.row["dispatch_key"] for again in asking.verify([job.pk], HOLDER)] == [attempt.dispatch_key]


def occupied(job: Job) -> bool:
    """Whether its session still stands for it, so that no other job can get it."""
    factories.submit(job.tenant, job.type)
    return transitions.assign(job.pool_id) == 0 and session_of(job).state == "busy"


@pytest.mark.parametrize("outcome", [factories.CUT, factories.ERROR_500])
def test_where_the_upstream_deduplicates_the_same_attempt_is_sent_again(outcome: Outcome) -> None:
    job, first = flying(idempotent=True)
    factories.learn(first, outcome)
    doubted = attempt_of(job)
    assert (doubted.phase, doubted.verdict, doubted.lease_until) == ("calling", "unknown", None)
    assert occupied(job)
    second = verify_until_sent(job)
    attempt = attempt_of(job)
    assert (attempt.pk, attempt.dispatch_key, attempt.sendings) == (doubted.pk, doubted.dispatch_key, 2)
    assert second.row["dispatch_key"] == first.row["dispatch_key"]
    assert second.repeat
    assert attempt.fence == second.fence == attempt.resource.fence > first.fence
    assert attempt.lease_until is not None
    assert occupied(job)
    factories.learn(second, factories.SUCCESS)
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.attempts, job.tries) == ("completed", 1, 1)


def test_a_doubted_attempt_is_not_sent_again_before_its_pause() -> None:
    job, first = flying(idempotent=True, retry={"first_ms": 3_600_000, "max_ms": 3_600_000})
    factories.learn(first, factories.CUT)
    db.execute("UPDATE jobs_attempt SET look_at = now() + interval '1 minute'")
    before = db.everything()
    assert asking.verify([job.pk], HOLDER) == []
    assert db.everything() == before


def test_a_repeat_that_is_told_to_wait_waits_that_long() -> None:
    job, flight = flying(idempotent=True)
    factories.learn(flight, factories.CUT)
    busy = Outcome(over=False, verdict="unknown", error_class="busy", status=429, retry_after_ms=60_000)
    factories.learn(verify_until_sent(job), busy)
    db.let_time_pass(55)
    assert asking.verify([job.pk], HOLDER) == []
    db.let_time_pass(6)
    assert [flight.action for flight in asking.verify([job.pk], HOLDER)] == ["submit"]


def test_sendings_are_bounded_then_max_runtime_is_waited_out_then_the_outcome_stays_unknown() -> None:
    job, flight = flying(idempotent=True)
    for sending in range(2, SENDINGS + 1):
        factories.learn(flight, factories.CUT)
        flight = verify_until_sent(job)
        assert attempt_of(job).sendings == sending
    factories.learn(flight, factories.CUT)
    db.let_time_pass(OVER_SECONDS - 5)
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    db.let_time_pass(6)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "outcome_unknown")  # type: ignore[index]
    assert attempt_of(job).sendings == SENDINGS
    assert Hold.objects.get(job_id=job.pk).status == "released"


def test_where_it_does_not_the_session_stays_occupied_until_max_runtime_has_passed() -> None:
    job, flight = flying(idempotent=False)
    factories.learn(flight, factories.CUT)
    db.let_time_pass(OVER_SECONDS - 1)
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    assert attempt_of(job).sendings == 1


def test_at_most_once_then_fails_and_gives_the_hold_back() -> None:
    job, flight = flying(idempotent=False)
    factories.learn(flight, factories.CUT)
    db.let_time_pass(OVER_SECONDS + 1)
    assert asking.verify([job.pk], HOLDER) == []
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.error["code"], job.charged) == ("failed", "outcome_unknown", 0)  # type: ignore[index]
    assert money(job.tenant) == (1_000 * factories.MICRO, 0)
    assert session_of(job).state == "available"


def test_at_least_once_then_goes_back_and_is_sent_with_another_key() -> None:
    job, flight = flying(idempotent=False, delivery="at_least_once")
    factories.learn(flight, factories.CUT)
    db.let_time_pass(OVER_SECONDS + 1)
    asking.verify([job.pk], HOLDER)
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.tries, job.turn) == ("pending", 1, None)
    assert Hold.objects.get(job_id=job.pk).status == "open"
    db.let_time_pass(2)
    transitions.come_due([job.pk])
    transitions.promote(job.pool_id, [job.tenant_id])
    assert transitions.assign(job.pool_id) == 1
    again = factories.dispatch(job)
    assert again.row["dispatch_key"] != flight.row["dispatch_key"]
    assert not again.repeat


def test_a_complete_answer_that_says_nothing_lets_the_session_go_at_once() -> None:
    job, flight = flying(idempotent=False)
    factories.learn(flight, factories.ERROR_500)
    assert session_of(job).state == "available"
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "outcome_unknown")  # type: ignore[index]


def test_a_repeat_that_is_refused_leaves_it_unknown() -> None:
    job, flight = flying(idempotent=True)
    factories.learn(flight, factories.CUT)
    second = verify_until_sent(job)
    factories.learn(second, Outcome(over=False, verdict="unknown", error_class="busy", status=429))
    assert occupied(job)
    factories.learn(verify_until_sent(job), factories.SUCCESS)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, attempt_of(job).sendings) == ("completed", 3)


def test_a_late_writer_changes_nothing_and_leaves_what_it_learned() -> None:
    job, first = flying(idempotent=True)
    db.let_time_pass(16)
    assert transitions.doubt([job.pk]) == 1
    verify_until_sent(job)
    for outcome in (factories.SUCCESS, factories.FAILURE, factories.CUT):
        before = db.everything()
        factories.learn(first, outcome)
        after = db.everything()
        assert len(after.pop("jobs_evidence")) == len(before.pop("jobs_evidence")) + 1
        assert len(after.pop("jobs_latecompletion")) == 1  # to be decided once the run has ended
        before.pop("jobs_latecompletion")
        assert after == before
    late = Evidence.objects.filter(attempt_id=first.attempt_id, fence=first.fence, kind="answer")
    assert [e.content["verdict"] for e in late.order_by("id")] == ["succeeded", "failed", "unknown"]
    assert late.first().content["units"] == 3.0  # type: ignore[union-attr]
    assert transitions.finish([job.pk]) == 0


def test_a_late_writer_whom_nobody_replaced_is_believed() -> None:
    job, first = flying(idempotent=False)
    db.let_time_pass(16)
    assert transitions.doubt([job.pk]) == 1
    factories.learn(first, factories.SUCCESS)
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3 * factories.MICRO)


def test_a_lost_worker_leaves_the_outcome_unknown_and_the_session_occupied() -> None:
    job, _ = flying(idempotent=False)
    db.let_time_pass(14)
    assert transitions.doubt([job.pk]) == 0
    db.let_time_pass(2)
    assert transitions.doubt([job.pk]) == 1
    attempt = attempt_of(job)
    assert (attempt.verdict, attempt.error_code, attempt.holder) == ("unknown", "worker_lost", "")
    job.refresh_from_db()
    assert (job.state, job.crashes, job.tries) == ("processing", 1, 0)
    assert occupied(job)


def test_a_lost_worker_of_an_upstream_that_deduplicates_is_replaced_at_once() -> None:
    job, first = flying(idempotent=True)
    db.let_time_pass(16)
    transitions.doubt([job.pk])
    (second,) = asking.verify([job.pk], "worker:other")
    assert second.fence > first.fence
    assert attempt_of(job).holder == "worker:other"


def test_a_job_that_kills_its_workers_is_a_dead_letter() -> None:
    job, _ = flying(idempotent=True)
    for lost in (1, 2, 3):
        db.let_time_pass(16)
        assert transitions.doubt([job.pk]) == 1
        job.refresh_from_db()
        assert job.crashes == lost
        if lost < 3:
            assert len(asking.verify([job.pk], HOLDER)) == 1
    assert asking.verify([job.pk], HOLDER) == []  # it is not sent to a fourth worker
    db.let_time_pass(OVER_SECONDS + 1)
    asking.verify([job.pk], HOLDER)
    assert transitions.finish([job.pk]) == 1
    job.refresh_from_db()
    assert (job.state, job.error["code"]) == ("failed", "crash_budget")  # type: ignore[index]
    assert money(job.tenant) == (1_000 * factories.MICRO, 0)


def test_waiting_for_a_worker_costs_no_crash() -> None:
    """Nobody took the job up before its lease ended: it killed no one."""
    job = factories.at("assigned")
    for _ in range(5):
        db.let_time_pass(16)
        assert transitions.unassign([job.pk]) == 1
        assert transitions.assign(job.pool_id) == 1
    factories.end(job, factories.AWAY)
    assert (job.state, job.tries) == ("pending", 1)


@pytest.mark.parametrize("change", [{"retry": {"attempts": 0}}, {"upstream": {"submit": {"path": "'/run'"}}}])
def test_a_type_that_changed_meanwhile_does_not_let_a_session_go_early(change: dict[str, Any]) -> None:
    job, flight = flying(idempotent=True)
    factories.learn(flight, factories.CUT)
    type(job.type).objects.filter(pk=job.type_id).update(**change)
    db.let_time_pass(OVER_SECONDS - 5)
    assert asking.verify([job.pk], HOLDER) == []
    assert occupied(job)
    db.let_time_pass(6)
    assert asking.verify([job.pk], HOLDER) == []
    assert session_of(job).state == "available"


def test_a_heartbeat_keeps_the_lease_of_its_own_fence_alone() -> None:
    from jobs.queries import attempts

    job, first = flying(idempotent=True)
    db.let_time_pass(10)
    assert attempts.renew([(first.attempt_id, first.fence)], 15) == {first.attempt_id}
    db.let_time_pass(10)
    assert transitions.doubt([job.pk]) == 0
    db.let_time_pass(10)
    assert transitions.doubt([job.pk]) == 1
    assert attempts.renew([(first.attempt_id, first.fence)], 15) == set()
    (second,) = asking.verify([job.pk], HOLDER)
    assert attempts.renew([(first.attempt_id, first.fence), (second.attempt_id, second.fence)], 15) == {
        second.attempt_id
    }
    assert attempts.renew([(first.attempt_id, first.fence)], 15) == set()
