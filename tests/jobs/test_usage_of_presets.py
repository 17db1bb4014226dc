"""What a job costs whose provider forgets to say its usage: what was held, and somebody is told. Never nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import factories
from tests.upstream.calling import call_of, made
from tests.upstream.fakes.replicate import Replicate
from tests.upstream.fakes.runpod import RunPod
from tests.upstream.fakes.server import KEY
from upstream.declared import merged

pytestmark = pytest.mark.django_db
FAKES: dict[str, Any] = {"replicate": Replicate, "runpod": RunPod}


@pytest.fixture(params=FAKES)
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(preset: str) -> Iterator[Any]:
    fake = FAKES[preset]()
    yield fake
    fake.stop()


def call(preset: str, server: Any, payload: Any) -> Any:
    block = merged({"preset": preset, "base_url": server.url}, {})
    account = {"name": "a1", "credential": KEY, "labels": {}, "vars": {"endpoint": "ep1"}}
    return call_of(server.url, block, payload=payload, account=account, reference="w1", callback_url="")


@pytest.mark.parametrize("said", [True, False])
def test_missing_usage_charges_the_hold_and_is_flagged(preset: str, server: Any, said: bool) -> None:
    job_type = factories.make_job_type(price="5", settle="2 * outcome.units")
    job = factories.at("assigned", job_type)
    flight = factories.dispatch(job)
    made("submit", call(preset, server, {"version": "v1", "input": {}}))
    server.succeeds()
    if not said:
        for name in ("metrics", "executionTime"):
            server.work.pop(name, None)
    factories.learn(flight, made("poll", call(preset, server, {})))
    factories.transitions.finish([job.pk])
    job.refresh_from_db()
    assert (job.state, job.charged) == ("completed", 3_000_000 if said else 5_000_000)
    assert bool(job.flagged) is not said
