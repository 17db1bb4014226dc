"""What an upstream knows of a job is taken up also on a session at rest: a closed pool has no other end, nor a probe."""

import pytest

from jobs import asking, suspecting, transitions
from pool import transitions as sessions
from pool.models import PoolHealth, Resource
from tests import factories
from tests.db import execute, let_time_pass
from tests.factories import HOLDER, attempt_of, session_of
from tests.jobs.keys_world import Keys, decided, key, keys, over, waiting

__all__ = ["keys"]  # a fixture

pytestmark = pytest.mark.django_db


def test_it_is_taken_up_on_a_session_that_rests_and_rests_on_when_it_has_ended(keys: Keys) -> None:
    job = waiting(keys, accounts=1)
    keys.known["sim-acct-001", key(job, 1)] = "done"
    sessions.quarantine([Resource.objects.get().pk], 1_800, "their support asked for it")
    before = Resource.objects.get()
    assert suspecting.inquire() == 1
    assert (decided(job), session_of(job).state) == ("found", "busy")
    assert attempt_of(job).fence == session_of(job).fence > before.fence
    let_time_pass(2)
    (found,) = asking.verify([job.pk], HOLDER)
    factories.learn(found, factories.SUCCESS)
    transitions.finish([job.pk])
    after = session_of(job)
    assert (after.state, after.reason) == ("cooldown", "their support asked for it")
    assert after.available_at == after.rest_until
    assert over(job.pool)
    factories.submit(job.tenant, job.type)
    assert transitions.assign(job.pool_id) == 0, "nothing begins on it"


def test_a_pool_that_rests_as_one_opens_without_the_answer_of_its_probe(keys: Keys) -> None:
    job = waiting(keys, accounts=2)
    keys.known["sim-acct-002", key(job, 1)] = "running"
    probe, other = Resource.objects.order_by("id")
    PoolHealth.objects.create(pool=job.pool, level=1, why="two accounts failed", probe_id=probe.pk)
    execute("""UPDATE pool_poolhealth SET opened_at = now(), open_until = now() + interval '1 minute'""")
    execute("""UPDATE pool_resource SET broken_until = now() + interval '30 minutes'""")
    with sessions.transaction.atomic():
        sessions.rest_or_release([probe.pk, other.pk])
    assert suspecting.inquire() == 1
    assert (decided(job), session_of(job).pk) == ("found", other.pk)


def test_a_session_that_is_awake_goes_first(keys: Keys) -> None:
    job = waiting(keys, accounts=1, sessions=2)
    keys.known["sim-acct-001", key(job, 1)] = "running"
    first, second = Resource.objects.order_by("id")
    sessions.quarantine([first.pk], 60, "test")
    assert suspecting.inquire() == 1
    assert session_of(job).pk == second.pk
    first.refresh_from_db()
    assert first.state == "cooldown"
