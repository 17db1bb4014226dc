"""One world for all tests of this folder; after each of them the audit, and the upstream's own count."""

from collections.abc import Iterator

import pytest

from tests.whole.cases.world import SESSIONS, World
from tests.whole.running import Running, simulator


@pytest.fixture(scope="package")
def shared_world(berth: Running) -> Iterator[World]:
    with simulator("--accounts", str(SESSIONS), "--latency", "20ms") as url:
        world = World(berth, url)
        yield world
        world.close()


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    yield shared_world
    figures = shared_world.report()
    assert (shared_world.berth.audit_breaches(), figures["overlaps"]) == ({}, 0)
