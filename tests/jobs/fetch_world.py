"""Jobs whose results lie behind links, for tests of fetching them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs import fetcher, results, transitions
from jobs.findings import Finding
from jobs.models import Evidence, Job
from tests import factories
from tests.api.conftest import Caller
from tests.linking import Linking
from upstream.calls import Outcome

IMAGE = b"\x89PNG" * 1_000
PATIENCE_SECONDS = 10


@pytest.fixture
def provider() -> Iterator[Linking]:
    """An upstream that keeps files; of what was begun nothing goes on after the test."""
    made = Linking()
    made.pages["/a.png"] = (200, {"Content-Type": "image/png"}, IMAGE)
    yield made
    fetcher.stop()
    made.die()


def answered(
    caller: Caller, provider: Linking, links: Any, result: Any = None, max_size: str = "1MB", **fields: Any
) -> Job:
    """A job whose upstream said that it succeeded, with these links; learned, and nothing more."""
    pool = factories.make_tracked_pool(100, upstream={"base_url": provider.url})
    upstream = {"mode": "sync", "submit": {"path": "'/run'"}, "result_files": {"urls": "''", "max": max_size}}
    job_type = factories.make_job_type(pool, upstream=upstream)
    job = factories.at("assigned", job_type, caller.tenant)
    outcome = Outcome(over=True, verdict="succeeded", units=3.0, result=result, files=links, **fields)
    results.learn([Finding(factories.dispatch(job), outcome)])
    return job


def mended(job: Job, **block: Any) -> None:
    """The type says it otherwise from now on."""
    job.type.upstream = {**job.type.upstream, "result_files": block}
    job.type.save()


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def tried(job: Job) -> None:
    """One try of the fetch, whatever comes of it."""
    fetcher.fetch([job.id])
    until(lambda: Evidence.objects.filter(kind="fetch").exists() or factories.attempt_of(job).fetch_at is None)


def ended(job: Job) -> Job:
    until(lambda: factories.attempt_of(job).fetch_at is None)
    transitions.finish([job.id])
    job.refresh_from_db()
    return job
