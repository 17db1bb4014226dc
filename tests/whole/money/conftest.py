"""One world for all tests of this folder, and after each of them the audit."""

from collections.abc import Iterator

import pytest

from tests.whole.money.crowd import web_processes
from tests.whole.money.world import SESSIONS, World
from tests.whole.running import Running, simulator


@pytest.fixture(scope="package")
def shared_world(berth: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("webs")
    with (
        simulator("--accounts", str(SESSIONS), "--latency", "20ms") as url,
        web_processes(berth, folder, more=3) as webs,
    ):
        yield World(berth, webs, url)


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    yield shared_world
    figures = shared_world.report()
    assert (shared_world.berth.audit_breaches(), figures["overlaps"], figures["double_executions"]) == ({}, 0, 0)
