"""An empty database is prepared, and who does it is killed in the middle: the next one goes on where it stood."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import psycopg2

from tests.chaos.world import World

SECONDS = 120.0
LOOK_SECONDS = 0.01


def killed_while_it_migrates(world: World, *, after: int) -> None:
    """`after` so many migrations; then the same command ends well, and nothing is left to do."""
    with _database(world) as url:
        prepare = _manage(world, url, "prepare")
        end = time.monotonic() + SECONDS
        while (done := _migrations(url)) < after:
            assert prepare.poll() is None, f"it ended after {done} migrations"
            assert time.monotonic() < end, f"{done} migrations after {SECONDS} s"
            time.sleep(LOOK_SECONDS)
        prepare.send_signal(signal.SIGKILL)
        prepare.wait()
        for command in (("prepare",), ("migrate", "--check"), ("audit",)):
            again = _manage(world, url, *command)
            output, _ = again.communicate(timeout=SECONDS)
            assert again.returncode == 0, f"{command}: {output}"


@contextmanager
def _database(world: World) -> Iterator[str]:
    """An empty one beside the world's own; its URL."""
    own, name = world.servers.run["database_url"], f"prepared_{time.monotonic_ns()}"
    with closing(psycopg2.connect(own)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(own)._replace(path=f"/{name}").geturl()
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _manage(world: World, url: str, *command: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, **world.web.environment, **world.web.run["env"], "DATABASE_URL": url}
    return subprocess.Popen(
        [sys.executable, "manage.py", *command],
        cwd=world.project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _migrations(url: str) -> int:
    try:
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM django_migrations")
            return int(cursor.fetchone()[0])
    except psycopg2.errors.UndefinedTable:
        return 0
