"""One running Berth for all stories of this folder: each brings a pool, types and tenants of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.running import Running


@pytest.fixture(scope="session")
def berth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("home")
    home.parent.chmod(0o711)  # the database may run as another user, who must pass
    running = Running(home)
    yield running
    assert running.stop() == 0
    assert not (home / "run.json").exists()
