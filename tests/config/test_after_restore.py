"""What is applied after a restore counts as if it had been there when the database went back."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import reopening, restoring, suspecting, transitions
from jobs.models import Job, JobType, Suspicion
from jobs.queries import suspicions
from pool.models import Pool, Resource, Restoration
from tenants.models import Tenant
from tests import factories
from tests.config.conftest import SMALL, Apply
from tests.db import RACE_SECONDS, in_another_connection, wait_until_blocked_by_us
from tests.jobs import keys_world
from tests.jobs.keys_world import keys
from tests.jobs.test_restoring import decided, over

__all__ = ["keys"]  # a fixture

pytestmark = pytest.mark.django_db
ELSEWHERE = "http://127.0.0.1:9901"
AWAY = ("pools.video.upstream.base_url", ELSEWHERE)
SECOND = ("pools.video.accounts.a2", {"sessions": 1, "credential": {"env": "A2"}})
IDEMPOTENT = ("job_types.clip.upstream.submit.idempotent", True)
FIND = ("job_types.clip.upstream.find", keys_world.FIND)
LONGER = ("job_types.clip.max_runtime", "10m")
OTHER = ("pools.other", {"upstream": {"base_url": "http://127.0.0.1:9901"}, "accounts": {"b1": {"sessions": 1}}})
MOVED = ("job_types.clip.pool", "other")


def restored(**terms: Any) -> None:
    restoring.restored(note="test", **terms)


def closed_for(name: str = "video") -> timedelta | None:
    """Since the restore."""
    until = Pool.objects.get(name=name).quarantined_until
    return until and until - Restoration.objects.latest("at").at


def lasts(minutes: int) -> timedelta:
    """A lease, in which something may still be sent, and the longest run."""
    return timedelta(minutes=minutes, seconds=15)


def waits() -> Job:
    return factories.submit(factories.make_tenant(), JobType.objects.get(), payload={"seconds": 1})


def decide(word: str) -> None:
    pool = Pool.objects.get()
    suspicions.decide(word, suspicions.undecided(pool.pk))


def test_a_pool_that_is_made_after_a_restore_may_have_been_there_before(apply: Apply) -> None:
    factories.make_pool()
    restored()
    assert "pool video: closed until" in apply(dry_run=True)
    assert "pool video: closed until" in apply()
    assert closed_for() == lasts(5)
    job = waits()
    assert transitions.assign(job.pool_id) == 0
    assert over(job.pool)
    assert transitions.assign(job.pool_id) == 1


def test_a_pool_that_a_type_moves_to_may_have_had_its_jobs_before(apply: Apply) -> None:
    apply(OTHER)
    restored()
    other = Pool.objects.get(name="other")
    assert reopening.reopen(other.pk), "it had no types"
    apply(OTHER, MOVED)
    assert (closed_for("other"), closed_for("video")) == (lasts(5), lasts(5))
    assert Resource.objects.get(pool=other).quarantined


def test_jobs_may_have_run_for_longer_before(apply: Apply) -> None:
    apply()
    restored()
    apply(LONGER)
    assert closed_for() == lasts(10)
    apply()
    assert closed_for() == lasts(10), "what runs shorter now may have run longer before"


def test_it_counts_since_when_nothing_was_sent_any_more(apply: Apply) -> None:
    apply()
    restored(quiet_since=timezone.now() - timedelta(minutes=6))
    assert reopening.reopen(Pool.objects.get().pk)
    assert "closed" not in apply(("job_types.clip.max_runtime", "350s"))
    assert closed_for() is None
    assert "closed" in apply(LONGER)
    closed = closed_for()
    assert closed is not None
    assert timedelta(minutes=3) < closed <= timedelta(minutes=4)


@pytest.mark.parametrize("restores", [0, 1])
def test_what_is_applied_long_after_a_restore_or_without_one_closes_nothing(apply: Apply, restores: int) -> None:
    apply()
    if restores:
        restored()
        assert over(Pool.objects.get())
        Restoration.objects.update(at=timezone.now() - timedelta(minutes=11))
    assert "closed" not in apply(LONGER, OTHER, SECOND)
    assert not Pool.objects.exclude(quarantined_at=None).exists()


@pytest.mark.parametrize("word", ["", "never_sent", "same_key"])
def test_an_account_that_comes_back_is_asked_for_what_waits(apply: Apply, word: str) -> None:
    apply(FIND)
    job = waits()
    restored()
    asked = suspicions.undecided(job.pool_id)
    if word:
        decide(word)
    Suspicion.objects.update(look_at=timezone.now() + timedelta(hours=1), asks_failed=3)
    apply(FIND, SECOND)
    row = Suspicion.objects.get()
    assert (row.decided, row.decided_at, row.asks_failed, row.look_at <= timezone.now()) == ("", None, 0, True)
    suspicions.decide("never_sent", asked)
    assert decided(job) == "", "whoever asked before has not asked the new account"
    assert [row["accounts"] for row in suspicions.undecided(job.pool_id)] == [2]


@pytest.mark.parametrize("word", ["may_repeat", "operator"])
def test_what_no_account_decides_stays_decided(apply: Apply, word: str) -> None:
    apply(FIND)
    job = waits()
    restored()
    decide(word)
    apply(FIND, SECOND)
    assert decided(job) == word


@pytest.mark.parametrize("is_open", [False, True])
def test_a_key_that_a_job_had_is_not_sent_to_an_account_that_is_added_meanwhile(apply: Apply, is_open: bool) -> None:
    apply(IDEMPOTENT)
    job = waits()
    restored()
    assert suspecting.decide_unasked(job.pool_id) == 1
    if is_open:
        assert over(job.pool)
    assert decided(job) == "same_key"
    apply(IDEMPOTENT, SECOND)
    assert transitions.assign(job.pool_id) == 0
    assert over(job.pool)
    job.refresh_from_db()
    assert (job.state, job.error["code"], decided(job)) == ("failed", "outcome_unknown", "nobody_knows")
    assert transitions.assign(waits().pool_id) == 1
    assert Tenant.objects.exists()


def test_a_key_that_is_on_its_way_is_not_doubted_again(apply: Apply) -> None:
    apply(IDEMPOTENT)
    job = waits()
    restored()
    assert over(job.pool)
    assert transitions.assign(job.pool_id) == 1
    apply(IDEMPOTENT, SECOND)
    assert decided(job) == "same_key"
    assert factories.dispatch(job).repeat
    assert Pool.objects.get().quarantined_at is None


@pytest.mark.django_db(transaction=True)
def test_an_account_waits_for_a_claim_that_gives_the_key_to_the_one_that_had_it(apply: Apply) -> None:
    apply(IDEMPOTENT)
    job = waits()
    restored()
    assert over(job.pool)
    with transaction.atomic():
        assert transitions.assign(job.pool_id) == 1
        adding = in_another_connection(lambda: apply(IDEMPOTENT, SECOND))
        wait_until_blocked_by_us()
    assert "create" in adding.result(RACE_SECONDS)
    assert decided(job) == "same_key"
    assert reopening.reopen(job.pool_id), "nothing is undecided"
    assert factories.dispatch(job).repeat
    assert factories.attempt_of(job).account.name == "a1"


MOVES = {
    "pools.video.upstream.base_url": ELSEWHERE,
    "pools.video.accounts.a1.vars": {"endpoint": "two"},
    "job_types.clip.upstream.submit.path": "'/other'",
}


@pytest.mark.parametrize(("place", "value"), MOVES.items(), ids=list(MOVES))
@pytest.mark.parametrize(("word", "called"), [("", "otherwise"), ("never_sent", ""), ("same_key", "otherwise")])
def test_where_calls_go_now_is_asked_for_what_waits(
    apply: Apply, place: str, value: Any, word: str, called: str
) -> None:
    apply(FIND)
    job = waits()
    restored()
    asked = suspicions.undecided(job.pool_id)
    if word:
        decide(word)
    Suspicion.objects.update(look_at=timezone.now() + timedelta(hours=1), asks_failed=3)
    assert "suspected anew" in apply(FIND, (place, value), dry_run=True)
    assert "suspected anew" in apply(FIND, (place, value))
    row = Suspicion.objects.get()
    assert (row.decided, row.called, row.asks_failed, row.look_at <= timezone.now()) == ("", called, 0, True)
    suspicions.decide("never_sent", asked)
    assert decided(job) == "", "whoever asked before has not asked there"


def test_another_asking_tells_anew_and_is_believed(apply: Apply) -> None:
    apply(FIND)
    job = waits()
    restored()
    decide("never_sent")
    apply(("job_types.clip.upstream.find", {**keys_world.FIND, "after": "2s"}))
    assert (decided(job), Suspicion.objects.get().called) == ("", "")


def test_another_credential_may_be_that_of_another_account_that_knows_more(apply: Apply) -> None:
    apply(FIND)
    job = waits()
    restored()
    decide("never_sent")
    apply(FIND, ("pools.video.accounts.a1.credential", {"env": "A2"}))
    assert (decided(job), Suspicion.objects.get().called) == ("", "")


def test_what_moves_another_type_doubts_nothing(apply: Apply) -> None:
    other = [("job_types.cut", {**SMALL["job_types"]["clip"], "upstream": {"submit": {"path": "'/cut'"}}})]
    apply(IDEMPOTENT, *other)
    factories.submit(factories.make_tenant(), JobType.objects.get(name="clip"), payload={"seconds": 1})
    restored()
    decide("same_key")
    assert "anew" not in apply(IDEMPOTENT, *other, ("job_types.cut.upstream.submit.path", "'/other'"))
    assert Suspicion.objects.get().decided == "same_key"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_key_that_a_job_had_is_not_sent_to_another_place(apply: Apply, is_open: bool) -> None:
    apply(IDEMPOTENT)
    job = waits()
    restored()
    assert suspecting.decide_unasked(job.pool_id) == 1
    if is_open:
        assert over(job.pool)
    apply(IDEMPOTENT, AWAY)
    assert suspecting.decide_unasked(job.pool_id) == 0
    assert transitions.assign(job.pool_id) == 0
    assert over(job.pool)
    job.refresh_from_db()
    assert (job.state, job.error["code"], decided(job)) == ("failed", "outcome_unknown", "nobody_knows")


@pytest.mark.parametrize("asked_before", [True, False])
def test_that_nobody_knows_a_key_elsewhere_says_nothing_of_where_it_may_have_been_sent(
    apply: Apply, keys: keys_world.Keys, asked_before: bool
) -> None:
    here = ("pools.video.upstream.base_url", f"http://127.0.0.1:{keys.server_port}")
    there = ("pools.video.upstream.base_url", f"http://localhost:{keys.server_port}")
    apply(FIND, here)
    job = waits()
    restored(quiet_since=timezone.now() - timedelta(minutes=1))
    if asked_before:
        assert suspecting.inquire() == 1
    apply(FIND, there)
    suspecting.inquire()
    assert decided(job) == ("never_sent" if asked_before else "")
    assert over(job.pool)
    job.refresh_from_db()
    assert (job.state, decided(job)) == (("pending", "never_sent") if asked_before else ("failed", "nobody_knows"))
    assert keys.asked
