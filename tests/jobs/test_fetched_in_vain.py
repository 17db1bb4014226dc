"""Files that were fetched, and whose result could not be kept: told, or given up where another try has won."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from files.models import File
from jobs import fetcher
from jobs.models import Attempt
from tests import factories
from tests.api.conftest import Caller
from tests.jobs.fetch_world import answered, ended, until
from tests.linking import Linking

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_a_try_stored_that_was_taken_over_is_given_up(caller: Caller, provider: Linking) -> None:
    provider.pause_seconds = 1.0
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    until(lambda: provider.seen["/a.png"])
    Attempt.objects.update(fetch_tries=F("fetch_tries") + 1)
    until(lambda: not fetcher._of_this_process()._under_way)
    assert not File.objects.filter(gone_at=None).exists()
    assert factories.attempt_of(job).result is None


@pytest.fixture
def unwritable() -> Iterator[None]:
    """No result is taken by the database, as when its disk is full."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt ADD CONSTRAINT no_room CHECK (result IS NULL) NOT VALID")
        yield
        cursor.execute("ALTER TABLE jobs_attempt DROP CONSTRAINT IF EXISTS no_room")


def test_a_result_that_cannot_be_kept_is_told_and_fetched_again(
    caller: Caller, provider: Linking, unwritable: None, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.LEASE_SECONDS = 0.6
    job = answered(caller, provider, {"file": f"{provider.url}/a.png"})
    fetcher.fetch([job.id])
    until(lambda: [record for record in caplog.records if record.levelno == logging.ERROR])
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == f"what came of attempt {factories.attempt_of(job).pk}'s files could not be kept"
    assert record.exc_info is not None
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt DROP CONSTRAINT no_room")

    def fetched() -> bool:
        fetcher.fetch([job.id])
        return factories.attempt_of(job).fetch_at is None

    until(fetched)
    assert ended(job).state == "completed"
