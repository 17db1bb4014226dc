"""Servers first, then Django, then the tests; and after each test that used the database, the audit."""

from tests.servers import ServersOfTheRun

# At import: pytest loads this file before anything reads Django's settings.
_servers = ServersOfTheRun()

import django  # noqa: E402

django.setup()

from collections.abc import Generator, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import pgtrigger  # noqa: E402
import pytest  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import TransactionTestCase  # noqa: E402

from broker_project.audit import RULES as OF_ALL  # noqa: E402
from credits.audit import RULES as OF_CREDITS  # noqa: E402
from tests.db import wait_for_a_day_that_lasts  # noqa: E402

# They start whole installations: two lanes of about the same length, so that no more than two run at once.
WORLDS = ("tests/chaos/", "tests/verdicts/", "tests/whole/test_restore", "tests/whole/test_stories")
INSTALLATIONS = ("tests/whole/",)
DATABASE_FIXTURES = {"db", "transactional_db", "django_db_reset_sequences", "live_server"}
settings.STATIC_ROOT.mkdir(exist_ok=True)  # WhiteNoise warns of a folder that is not there


def pytest_report_header() -> str:
    return _servers.summary


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tampers: breaks a rule of the audit on purpose, so the audit is not asked")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Each process that runs a part of the tests has its own servers; this one only counts."""
    _servers.forget()


def pytest_unconfigure() -> None:
    _servers.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts whole installations begins, so that where processes share the tests it is not waited for at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith((*WORLDS, *INSTALLATIONS)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where processes share the tests (`-n 3`), a lane or a file is one process's."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _lane(nodeid)

    return Lanes(config, log)


def _lane(nodeid: str) -> str:
    if nodeid.startswith(WORLDS):
        return "worlds"
    return "installations" if nodeid.startswith(INSTALLATIONS) else nodeid.partition("::")[0]


@pytest.fixture(autouse=True, scope="session")
def _append_only_tables_are_emptied_between_tests() -> Iterator[None]:
    """Tests that commit end with TRUNCATE, which the ledger's own trigger refuses."""
    patch = pytest.MonkeyPatch()
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def flush_past_triggers(case: TransactionTestCase) -> None:
        with pgtrigger.ignore():
            flush(case)

    patch.setattr(TransactionTestCase, "_fixture_teardown", flush_past_triggers)
    yield
    patch.undo()


@pytest.fixture(autouse=True, scope="session")
def _others_may_pass(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where a database runs as another user, that one has to come to its folder."""
    base = tmp_path_factory.getbasetemp()
    for folder in (base, *base.parents):
        if folder.name.startswith(("popen-", "pytest-")):
            folder.chmod(0o711)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Every rule of the audit holds after every test that touched the database; a breach fails the test itself."""
    yield
    if _used_the_database(item) and item.get_closest_marker("tampers") is None:
        breaches = {name: found for name, sql in _rules(item).items() if (found := _rows(sql))}
        assert not breaches, f"the audit finds breaches after the test: {breaches}"


@pytest.fixture
def within_one_day() -> None:
    """No day or month (UTC) ends in the middle of the test, nor between what it did and the audit."""
    wait_for_a_day_that_lasts()


def _used_the_database(item: pytest.Item) -> bool:
    return item.get_closest_marker("django_db") is not None or bool(
        DATABASE_FIXTURES & set(getattr(item, "fixturenames", ()))
    )


def _rules(item: pytest.Item) -> dict[str, str]:
    """All rules; for a test of the ledger by itself, where holds belong to jobs that do not exist, the ledger's."""
    return OF_CREDITS if "tests/credits/" in item.path.as_posix() else OF_ALL


def _rows(sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchmany(5))
