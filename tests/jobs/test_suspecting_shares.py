"""Closed pools share the keys that are asked for in a round: one whose upstream is gone keeps no other closed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import suspecting
from jobs.models import Job, Suspicion
from jobs.queries import suspicions
from tests import factories
from tests.jobs.keys_world import Keys, decided, keys, over, unlost, went_back

__all__ = ["keys"]  # a fixture

pytestmark = pytest.mark.django_db


def with_many_of_a_dead_pool(keys: Keys, many: int, attempts: int = 3) -> tuple[Job, list[Job]]:
    """A job of a healthy pool, looked at a little later than so many of a pool whose upstream answers nobody."""
    dead = unlost(keys, accounts=1, attempts=attempts, upstream={"base_url": "http://127.0.0.1:1"})
    tenant = factories.make_tenant(credits=100_000)
    others = [dead, *(factories.submit(tenant, dead.type) for _ in range(many - 1))]
    job = unlost(keys, accounts=1)
    went_back()
    Suspicion.objects.exclude(job=job).update(look_at=timezone.now() - timedelta(seconds=30))
    return job, others


def test_a_job_of_a_healthy_pool_is_asked_for_in_the_first_round(keys: Keys) -> None:
    job, others = with_many_of_a_dead_pool(keys, suspicions.MOST + 10)
    assert suspecting.inquire() == 1
    assert (decided(job), decided(others[0])) == ("never_sent", "")
    assert over(job.pool)
    assert not over(others[0].pool)


def test_no_more_are_locked_for_it(keys: Keys) -> None:
    with_many_of_a_dead_pool(keys, suspicions.MOST + 10)
    assert len(suspicions.due()) == suspicions.MOST // 2 + 1


def test_jobs_with_more_keys_than_a_round_has_do_not_take_all_of_them(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspecting, "MOST_CALLS", 4)
    job, _ = with_many_of_a_dead_pool(keys, 5, attempts=5)
    for _ in range(30):  # each time one of the two pools is first, so this fails once in 2 ** 30
        if suspecting.inquire():
            break
        Suspicion.objects.filter(job=job).update(look_at=timezone.now())
        Suspicion.objects.exclude(job=job).update(look_at=timezone.now() - timedelta(seconds=30))
    assert decided(job) == "never_sent"
