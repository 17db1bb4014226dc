"""What is refused before anything is changed, and what stays when putting a backup back fails half-way."""

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from psycopg2 import sql

from broker_project.backup import archive, manifest, putting_back, server
from broker_project.management.moments import past_moment
from statemachine.actors import at_the_shell
from statemachine.patience import patient
from tests.backup.test_archive import quiet, said

NAME = "backup_of_tests"
OTHERS_KEYS = "k9:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDA="
Restore = Callable[..., str]


@pytest.fixture(scope="module")
def backup(
    django_db_setup: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A backup of the database of the tests, while they are connected to it."""
    folder = tmp_path_factory.mktemp("backups")
    with django_db_blocker.unblock():
        call_command("backup", str(folder), stdout=io.StringIO())
    (path,) = folder.glob("berth-*.backup")
    return path


@pytest.fixture
def restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[Restore]:
    """`manage.py restore` where DATABASE_URL names another database, which is not there at first; what it says."""
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", NAME)

    def run(path: Path, **options: Any) -> str:
        said = io.StringIO()
        call_command("restore", str(path), stdout=said, **options)
        return said.getvalue()

    yield run
    for name in databases():
        execute("DROP DATABASE {} WITH (FORCE)", name)


def execute(statement: str, name: str) -> None:
    with server.maintaining() as connection:
        server.rows(connection, sql.SQL(statement).format(sql.Identifier(name)))


def databases() -> set[str]:
    with server.maintaining() as connection:
        found = server.rows(connection, "SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{NAME}%"])
    return {name for (name,) in found}


def other(backup: Path, folder: Path, content: bytes | None = None, **changed: Any) -> Path:
    """The same backup, saying something else of itself, or with another dump."""
    told = {**archive.read_manifest(backup), **changed}
    del told["berth_backup"]
    whole = b"".join(archive.chunks(backup)) if content is None else content
    with archive.written_whole(folder / "other.backup") as file:
        size, digest = archive.write(file, io.BytesIO(whole), quiet)
        archive.close(file, {**told, "bytes": size, "sha256": digest})
    return folder / "other.backup"


def test_a_backup_says_what_it_is_and_holds_no_key(backup: Path) -> None:
    told = archive.read_manifest(backup)
    assert (told["version"], told["jobs"], told["keys"]) == (manifest.version(), 0, manifest.fingerprints())
    assert "jobs.0001_initial" in told["migrations"]
    content = json.dumps(told)
    for keys in (settings.FIELD_KEYS, settings.KEY_PEPPERS):
        assert keys.partition(":")[2] not in content


def test_it_can_be_tried_without_being_put_back(backup: Path, restore: Restore) -> None:
    assert "could be restored here as things stand" in restore(backup, check=True)
    assert databases() == set()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gone/", "no folder {0}/gone; make it, or name a file"),
        ("gone", "no folder {0}/gone; make it, or name a file"),
        ("gone/x.backup", "no folder {0}/gone; make it first"),
    ],
)
def test_a_backup_into_a_folder_that_is_not_there_says_so(tmp_path: Path, path: str, why: str) -> None:
    with pytest.raises(CommandError, match=why.format(tmp_path)):
        call_command("backup", f"{tmp_path}/{path}")


@pytest.mark.django_db
def test_a_backup_names_the_secrets_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HOME", tmp_path)
    (tmp_path / "secrets.json").write_text("{}")
    assert f"Keep a copy of {tmp_path}/secrets.json apart" in said("backup", str(tmp_path))


def test_a_backup_of_a_newer_version_is_refused(backup: Path, restore: Restore, tmp_path: Path) -> None:
    migrations = archive.read_manifest(backup)["migrations"]
    with pytest.raises(CommandError, match=r"jobs\.9999_later"):
        restore(other(backup, tmp_path, migrations=[*migrations, "jobs.9999_later"]))


def test_a_backup_of_a_newer_server_is_refused(backup: Path, restore: Restore, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="it is older"):
        restore(other(backup, tmp_path, postgres=99))


def test_a_backup_whose_keys_are_not_here_is_refused(
    backup: Path, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "FIELD_KEYS", OTHERS_KEYS)
    with pytest.raises(
        CommandError, match=f"FIELD_KEYS.*field_keys, key_peppers and secret_key of {settings.HOME}/secrets.json"
    ):
        restore(backup, check=True)
    assert "could be restored here" in restore(backup, check=True, without_keys=True)


def test_a_database_that_somebody_is_connected_to_is_left_alone(backup: Path, restore: Restore) -> None:
    execute("CREATE DATABASE {}", NAME)
    connection = psycopg2.connect(server.url_of(NAME), application_name="berth web 4711")
    try:
        with pytest.raises(CommandError, match="berth web 4711"):
            restore(backup, replace=True)
    finally:
        connection.close()


def test_a_database_with_jobs_is_left_alone(backup: Path, restore: Restore) -> None:
    execute("CREATE DATABASE {}", NAME)
    with server.connected(NAME) as connection:
        server.rows(connection, "CREATE TABLE jobs_job AS SELECT 1 AS id")
    with pytest.raises(CommandError, match="there are jobs"):
        restore(backup)
    assert databases() == {NAME}


def test_trying_a_backup_where_all_runs_says_that_it_is_whole_and_what_is_needed(
    backup: Path, restore: Restore
) -> None:
    execute("CREATE DATABASE {}", NAME)
    with server.connected(NAME) as connection:
        server.rows(connection, "CREATE TABLE jobs_job AS SELECT 1 AS id")
        said = restore(backup, check=True)
    for told in ("It is whole.", "Before it can be restored", "Stop every process of Berth", "--replace puts"):
        assert told in said
    assert "--replace" not in restore(backup, check=True, replace=True)


def test_each_process_that_is_connected_is_named_once_and_no_more_than_some(
    backup: Path, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(putting_back, "MOST_NAMED", 1)
    execute("CREATE DATABASE {}", NAME)
    with ExitStack() as ending:
        for name in ("berth web 4711", "berth web 4711", "berth web 4712"):
            ending.enter_context(closing(psycopg2.connect(server.url_of(NAME), application_name=name)))
        with pytest.raises(CommandError, match=r"berth web 4711 from [0-9a-z.]+, and 1 more\. Stop"):
            restore(backup)


@pytest.mark.parametrize(
    ("text", "said"),
    [("yesterday", "is no time"), ("2999-01-31T12:00:00", "12:00:00 UTC is still to come"), ("2999-01-31", "to come")],
)
def test_a_time_that_is_none_or_is_to_come_is_refused_before_anything_is_read(text: str, said: str) -> None:
    for command in (["restore", "nothing-there.backup"], ["restored"]):
        with pytest.raises(CommandError, match=f"--quiet-since: .*{said}"):
            call_command(*command, "--quiet-since", text)


def test_a_time_without_a_zone_is_of_utc() -> None:
    assert past_moment("2026-01-31") == past_moment("2026-01-31T01:00:00+01:00") == past_moment("2026-01-31T00:00")


def test_statements_of_backups_may_take_longer_than_others() -> None:
    with patient(0.05), server.maintaining() as connection, server.connected("postgres") as other:
        for each in (connection, other):
            assert (
                server.rows(each, "SELECT pg_sleep(0.2) IS NOT NULL, current_setting('statement_timeout')")[0][1] == "0"
            )


def test_what_fails_half_way_changes_nothing_that_is_in_use(backup: Path, restore: Restore, tmp_path: Path) -> None:
    execute("CREATE DATABASE {}", NAME)
    content = b"".join(archive.chunks(backup))
    with pytest.raises(CommandError, match=f"{NAME} is as it was"):
        restore(other(backup, tmp_path, content[: len(content) // 2]))
    assert databases() == {NAME, f"{NAME}_restoring"}
    with server.connected(NAME) as connection:
        assert server.rows(connection, "SELECT count(*) FROM pg_class WHERE relname = 'jobs_job'") == [(0,)]


def test_it_takes_the_place_of_what_was_there_marked_as_restored(backup: Path, restore: Restore) -> None:
    execute("CREATE DATABASE {}", NAME)
    said = restore(backup)
    (kept,) = databases() - {NAME}
    assert (kept.startswith(f"{NAME}_before_"), kept in said) == (True, True)
    with server.connected(NAME) as connection:
        rows = server.rows(connection, "SELECT went_back_to, actor FROM pool_restoration")
    assert [(moment.isoformat()[:19], actor) for moment, actor in rows] == [
        (archive.read_manifest(backup)["taken_at"][:19], at_the_shell())
    ]


def test_what_is_to_be_done_next_is_what_the_manual_says_in_its_order(backup: Path, restore: Restore) -> None:
    manual = (settings.BASE_DIR / "docs" / "deployment.md").read_text()
    done = manual[: manual.index("\n### Restore with")].partition("4. **Do it**")[2]
    titles = re.findall(r"^\d+\. \*\*([^*]+)\*\*", done, re.M)
    assert titles[:3] == ["Put the files back", "Apply the configuration", "Start Berth"]
    execute("CREATE DATABASE {}", NAME)
    assert re.findall(r"^  \d+\. ([^:]+):", restore(backup), re.M) == titles


def test_the_database_of_before_is_dropped_by_its_name_and_no_other_is(backup: Path, restore: Restore) -> None:
    for name in (NAME, f"{NAME}_before_summer"):
        execute("CREATE DATABASE {}", name)
    restore(backup)
    (kept,) = databases() - {NAME, f"{NAME}_before_summer"}
    for other_name in (NAME, f"{NAME}_before_summer", "postgres"):
        with pytest.raises(CommandError, match=f"no restore kept a database '{other_name}' beside; kept are: {kept}$"):
            call_command("restore", drop=other_name)
    with (
        closing(psycopg2.connect(server.url_of(kept), application_name="berth web 4711")),
        pytest.raises(CommandError, match="berth web 4711"),
    ):
        call_command("restore", drop=kept)
    call_command("restore", drop=kept, stdout=io.StringIO())
    assert databases() == {NAME, f"{NAME}_before_summer"}


@pytest.mark.parametrize("name", ["ü" * 31 + "x", "b" * 63, "short"])
def test_no_name_beside_is_cut_by_the_server_where_it_differs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", name)
    beside = putting_back.Plan(Path(), {}, Path()).beside
    with server.maintaining() as connection:
        kept = server.rows(connection, "SELECT %s::text::name::text", [beside])[0][0]
    assert (kept, kept.endswith("_restoring")) == (beside, True)
    assert len(putting_back.named(name, "_before_20260131_120000").encode()) <= 63
