"""One world for all short forms: each begins the load, and drains what it did."""

from collections.abc import Iterator

import pytest

from tests.chaos.world import World


@pytest.fixture(scope="session")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All tests of this folder run in one process (see tests/conftest.py), so there is only one."""
    home = tmp_path_factory.mktemp("chaos")
    home.parent.chmod(0o711)  # the database may run as another user, who must pass
    with World(home) as world:
        yield world
