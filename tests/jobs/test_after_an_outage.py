"""All accounts fail for a while, and many jobs wait: hardly anything is sent meanwhile, and recovery is no spike."""

import pytest

from jobs import transitions
from jobs.models import Attempt, Job
from jobs.queries import missed
from tests import factories
from tests.factories import SUCCESS
from tests.jobs.health_world import HTTP_503, World, answer
from upstream.calls import Outcome

pytestmark = pytest.mark.django_db
SESSIONS = 12


def a_second(world: World, outcome: Outcome) -> int:
    """What is due is done, and every call that it begins is answered a second later. How many there were."""
    transitions.come_due(missed.jobs_come_due())
    transitions.promote(world.pool.pk, [world.tenant.pk])
    while transitions.assign(world.pool.pk):
        pass
    jobs = list(Job.objects.filter(state="assigned"))
    transitions.dispatch([job.pk for job in jobs], factories.HOLDER)
    world.after(1)
    if jobs:
        answer(jobs, outcome)
    return len(jobs)


def test_after_an_outage_one_session_asks_and_the_sessions_bound_what_follows() -> None:
    world = World(accounts=4, sessions_each=3, window=100, breaker={"quarantine_ms": 10_000})
    factories.submit_many(world.tenant, world.type, 40)
    assert a_second(world, SUCCESS) == SESSIONS, "as many as there are sessions, each second, when all is well"

    down = [a_second(world, HTTP_503) for _ in range(20)]
    assert down[0] == SESSIONS, "what was sent before anybody knew"
    assert sum(down[1:]) <= 2, "then a probe after each quarantine, and nobody else"
    tried = Attempt.objects.filter(job__state="pending").count()
    assert tried <= SESSIONS + 2, "those that wait have lost no try"

    up = []
    while Job.objects.exclude(state="completed").exists():
        up.append(a_second(world, SUCCESS))
        assert len(up) < 60
    first = next(number for number, calls in enumerate(up) if calls)
    assert up[first] == 1, "half-open: a single probe"
    assert max(up) <= SESSIONS
    assert first < 25, "at the end of the quarantine that the probe began"
    assert up[first + 1] == SESSIONS, "and full use again"
