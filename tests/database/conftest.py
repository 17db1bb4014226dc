"""A pool of the test's own."""

import time
from collections.abc import Iterator

import pytest
from django.db import connection

from broker_project.postgres_pool.base import DatabaseWrapper


@pytest.fixture
def own() -> Iterator[DatabaseWrapper]:
    """A wrapper with a pool of its own, so that what happens to it happens to nobody else."""
    wrapper = connection.copy()
    wrapper.settings_dict = {
        **wrapper.settings_dict,
        "OPTIONS": {**wrapper.settings_dict["OPTIONS"], "application_name": f"test-{time.monotonic_ns()}"},
    }
    yield wrapper
    wrapper.close()
