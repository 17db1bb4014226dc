"""A pool at a provider of a known shape, and the command that tries it."""

import io
import json
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command

from jobs.models import JobType
from pool.models import Pool
from tests import factories
from tests.upstream.fakes.replicate import Replicate
from tests.upstream.fakes.server import KEY

PAYLOAD = json.dumps({"version": "v1", "input": {"prompt": "a cat"}})


@pytest.fixture
def server() -> Iterator[Replicate]:
    fake = Replicate()
    yield fake
    fake.stop()


@pytest.fixture
def pool(server: Replicate) -> Pool:
    pool = factories.make_pool(upstream={"adapter": "http", "preset": "replicate", "base_url": server.url})
    account = pool.accounts.get()
    account.credential = KEY
    account.save()
    return pool


@pytest.fixture
def job_type(pool: Pool) -> JobType:
    quick = {"mode": "poll", "submit": {}, "poll": {"every": "20ms"}}
    return factories.make_job_type(pool, name="image", upstream=quick, max_runtime_ms=2_000)


def check(pool: Pool, *arguments: str) -> tuple[str, bool]:
    """What it printed, and whether it found a problem."""
    out = io.StringIO()
    try:
        call_command("check_upstream", pool.name, *arguments, stdout=out, no_color=True)
    except CommandError as error:
        return f"{out.getvalue()}{error}", True
    return out.getvalue(), False
