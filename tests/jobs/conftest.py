"""A tenant's program, for what is learned here and asked for over HTTP."""

from tests.api.conftest import _nothing_is_kept_from_the_test_before, caller, caller_of
from tests.jobs.fetch_world import provider

__all__ = ["_nothing_is_kept_from_the_test_before", "caller", "caller_of", "provider"]
