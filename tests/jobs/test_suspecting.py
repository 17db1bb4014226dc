"""After a restore upstreams are asked for the keys that waiting jobs might have had: what they know is taken up."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from jobs import asking, inputs, reopening, restoring, suspecting, transitions
from jobs.models import Attempt, Job, Suspicion
from jobs.queries import missed
from pool import transitions as sessions
from pool.models import Pool, Resource, UpstreamAccount
from tests import factories
from tests.db import let_time_pass, value
from tests.factories import HOLDER, attempt_of
from tests.jobs.keys_world import Keys, decided, key, keys, over, unlost, waiting, went_back

__all__ = ["keys"]  # a fixture

pytestmark = pytest.mark.django_db


def test_a_job_that_no_account_knows_by_any_name_was_not_sent(keys: Keys) -> None:
    job = waiting(keys)
    assert suspecting.inquire() == 1
    assert sorted(keys.asked) == sorted(
        (f"sim-acct-{account:03}", key(job, number)) for account in (1, 2) for number in (1, 2, 3)
    )
    assert decided(job) == "never_sent"
    assert over(job.pool)
    assert transitions.assign(job.pool_id) == 1


def test_what_an_account_knows_is_taken_up_there_under_its_name(keys: Keys) -> None:
    job = waiting(keys)
    keys.known["sim-acct-002", key(job, 2)] = "done"
    assert suspecting.inquire() == 1
    job.refresh_from_db()
    attempt = attempt_of(job)
    assert (job.state, job.attempts, attempt.dispatch_key, attempt.account.name) == (
        "processing",
        2,
        key(job, 2),
        "acct-002",
    )
    first = Attempt.objects.get(job=job, number=1)
    assert (first.verdict, first.error_code, first.finished_at is not None) == ("not_executed", "restored", True)
    let_time_pass(2)
    (found,) = asking.verify([job.pk], HOLDER)
    assert found.action in ("find", "poll")
    factories.learn(found, factories.SUCCESS)
    transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged, decided(job)) == ("completed", 3_000_000, "found")
    assert over(job.pool)


@pytest.mark.parametrize(
    ("known", "taken", "before"),
    [
        ({1: "running", 3: "running"}, 3, ["unknown", "not_executed"]),
        ({1: "broken", 2: "done"}, 2, ["failed"]),
        ({1: "broken", 2: "broken"}, 2, ["failed"]),
        ({1: "done", 2: "broken"}, 1, []),
    ],
)
def test_of_several_names_a_success_is_taken_up_else_the_last(
    keys: Keys, known: dict[int, str], taken: int, before: list[str]
) -> None:
    job = waiting(keys, accounts=1)
    keys.known = {("sim-acct-001", key(job, number)): state for number, state in known.items()}
    assert suspecting.inquire() == 1
    assert Attempt.objects.get(job=job, ended_at=None).dispatch_key == key(job, taken)
    skipped = Attempt.objects.filter(job=job, number__lt=taken).order_by("number")
    assert [attempt.verdict for attempt in skipped] == before


def test_what_failed_is_taken_up_only_when_nothing_after_it_can_have_run(keys: Keys) -> None:
    job = waiting(keys, accounts=1)
    keys.known["sim-acct-001", key(job, 1)] = "broken"
    keys.status = 500
    assert suspecting.inquire() == 0
    assert not Attempt.objects.exists()
    keys.status = 404
    Suspicion.objects.update(look_at=timezone.now())
    assert suspecting.inquire() == 1
    assert attempt_of(job).dispatch_key == key(job, 1)


def test_what_a_tracked_account_has_begun_is_set_aside_of_it(keys: Keys) -> None:
    job = waiting(keys, accounts=1, tracks_credits=True)
    account = UpstreamAccount.objects.get()
    assert not account.tracked_since
    keys.known["sim-acct-001", key(job, 1)] = "running"
    assert suspecting.inquire() == 1
    assert value("SELECT count(*) FROM credits_hold WHERE attempt > 0") == 0, "it is not tracked yet"


def test_a_busy_account_is_taken_up_when_it_has_a_session(keys: Keys) -> None:
    job = waiting(keys, accounts=1)
    keys.known["sim-acct-001", key(job, 1)] = "running"
    sessions.disable([Resource.objects.get().pk], "test")
    assert suspecting.inquire() == 0
    assert decided(job) == ""
    assert not over(job.pool)


@pytest.mark.parametrize("status", [500, 401, 429])
def test_an_upstream_that_does_not_say_is_asked_again(keys: Keys, status: int) -> None:
    job = waiting(keys, accounts=1)
    keys.status = status
    assert suspecting.inquire() == 0
    assert (decided(job), suspecting.inquire(), over(job.pool)) == ("", 0, False)
    row = Suspicion.objects.get(job=job)
    assert row.asks_failed == 1
    assert row.look_at > timezone.now() + timedelta(seconds=5)
    keys.status = 404
    Suspicion.objects.update(look_at=timezone.now())
    assert suspecting.inquire() == 1
    assert over(job.pool)


def an_hour_later() -> None:
    Pool.objects.update(quarantined_until=timezone.now() - timedelta(seconds=reopening.PATIENCE_SECONDS))


def test_what_was_asked_for_in_vain_fails_after_an_hour_and_what_was_not_asked_for_waits(keys: Keys) -> None:
    job = waiting(keys, accounts=1)
    keys.status = 500
    suspecting.inquire()
    an_hour_later()
    assert not reopening.reopen(job.pool_id)
    assert decided(job) == "", "it was asked for but once"
    Suspicion.objects.update(asks_failed=suspecting.IN_VAIN)
    assert reopening.reopen(job.pool_id)
    job.refresh_from_db()
    assert (job.state, job.error["code"], decided(job)) == ("failed", "outcome_unknown", "nobody_knows")


def test_what_is_known_where_no_session_comes_back_does_not_wait_for_ever(keys: Keys) -> None:
    job = waiting(keys, accounts=1)
    keys.known["sim-acct-001", key(job, 1)] = "running"
    sessions.disable([Resource.objects.get().pk], "test")
    suspecting.inquire()
    assert Suspicion.objects.get().asks_failed == 1
    an_hour_later()
    Suspicion.objects.update(asks_failed=suspecting.IN_VAIN)
    assert reopening.reopen(job.pool_id)
    assert decided(job) == "nobody_knows"


def test_an_account_that_is_slow_keeps_no_other_waiting(keys: Keys) -> None:
    keys.slow = "sim-acct-001"
    job = waiting(keys, attempts=12)
    assert (suspecting.inquire(), decided(job)) == (1, "never_sent")


def test_a_job_with_more_keys_than_fit_into_a_round_has_a_longer_one(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspecting, "MOST_CALLS", 4)
    monkeypatch.setattr(suspecting, "ROUND_SECONDS", 0.001)
    lasted: list[float] = []
    find = suspecting.find
    monkeypatch.setattr(suspecting, "find", lambda calls, seconds: lasted.append(seconds) or find(calls, 5))
    job = waiting(keys, attempts=40)
    assert (suspecting.inquire(), decided(job), lasted) == (1, "never_sent", [pytest.approx(0.02)])


@pytest.mark.parametrize("fault", [{"adapter": "nobody-has-it"}, {"find": "nonsense"}])
def test_what_is_wrong_in_one_pool_keeps_no_other_waiting(keys: Keys, fault: dict[str, Any]) -> None:
    other, job = unlost(keys, upstream=fault), unlost(keys)
    if "find" in fault:
        other.type.upstream = fault
        other.type.save(update_fields=["upstream"])
    went_back()
    assert (suspecting.inquire(), decided(job), decided(other)) == (1, "never_sent", "")
    assert over(job.pool)
    assert over(other.pool) is ("find" in fault), "of that nobody can ask, and it fails; the adapter may come"


def test_what_is_wrong_with_one_job_keeps_no_other_waiting(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, job = unlost(keys), unlost(keys)
    went_back()
    Job.objects.filter(pk=broken.pk).update(payload={"n": 1})
    as_sent = inputs.as_sent

    def failing(payload: Any, *rest: Any) -> Any:
        if payload:
            raise ValueError("no file of that name")
        return as_sent(payload, *rest)

    monkeypatch.setattr(inputs, "as_sent", failing)
    assert (suspecting.inquire(), decided(job), decided(broken)) == (1, "never_sent", "")


def test_a_key_that_may_still_be_on_its_way_is_not_asked_for_yet(keys: Keys) -> None:
    job = waiting(keys)
    Suspicion.objects.update(since=timezone.now())
    assert suspecting.inquire() == 0
    assert (keys.asked, decided(job)) == ([], "")


def test_an_upstream_knows_nothing_of_what_a_worker_of_before_is_still_to_send(keys: Keys) -> None:
    job = waiting(keys)
    Suspicion.objects.update(since=timezone.now() - timedelta(seconds=settings.LEASE_SECONDS))
    assert (suspecting.inquire(), keys.asked) == (0, [])
    Suspicion.objects.update(
        since=timezone.now() - timedelta(seconds=settings.LEASE_SECONDS + 2), look_at=timezone.now()
    )
    assert (suspecting.inquire(), decided(job)) == (1, "never_sent")


def test_where_nothing_was_sent_any_more_upstreams_are_asked_for_keys_at_once(keys: Keys) -> None:
    job = unlost(keys)
    restoring.restored(note="test", quiet_since=timezone.now() - timedelta(seconds=2))
    assert (suspecting.inquire(), decided(job)) == (1, "never_sent")


def test_answers_that_were_asked_for_before_a_second_restore_decide_nothing_after_it(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = waiting(keys)
    find = suspecting.find

    def asked_meanwhile(*calls: Any) -> Any:
        answers = find(*calls)
        went_back()
        return answers

    monkeypatch.setattr(suspecting, "find", asked_meanwhile)
    suspecting.inquire()
    assert decided(job) == ""
    assert Suspicion.objects.get().asks_failed == 0


def test_a_cancelled_job_is_not_asked_for(keys: Keys) -> None:
    job = waiting(keys)
    transitions.cancel(job.pk)
    assert suspecting.inquire() == 1
    assert (keys.asked, decided(job)) == ([], "ended")


def test_a_job_does_not_expire_while_nobody_knows_whether_it_had_started(keys: Keys) -> None:
    lost, never = unlost(keys), unlost(keys)
    Job.objects.update(start_deadline=timezone.now() + timedelta(seconds=5))
    went_back()
    keys.known["sim-acct-001", key(lost, 1)] = "done"
    let_time_pass(10)
    assert missed.jobs_to_expire() == []
    assert transitions.expire([lost.pk, never.pk]) == 0
    assert suspecting.inquire() == 2
    assert (decided(lost), decided(never)) == ("found", "never_sent")
    assert transitions.expire(missed.jobs_to_expire()) == 1
    assert [Job.objects.get(pk=job.pk).state for job in (lost, never)] == ["processing", "failed"]
